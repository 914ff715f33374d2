"""Settings and map of the prolog and the epilog: read, never run, and not believed where others may write to them."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .machine import Machine, uuid


def files_of(machine):
    return [path for path in machine.root.rglob("*.json") if path.is_file()]


@pytest.mark.parametrize(
    "line",
    [
        *(
            "order=$(touch x)",
            "order=`touch x`",
            'order="$(touch x)"',
            "touch x",
            "order=pci; touch x",
            "order=pci;touch x",
        ),
        *(
            "order=pci touch x",
            "sharing[$(touch x)]=no",
            "export order=pci",
            "PATH=/tmp",
            "IFS=0",
            "order=pic",
            "sharing=",
        ),
        *(
            "order",
            "=pci",
            "order = pci",
            "directory=run",
            "directory=../run",
            "directory=",
            "nvidia=~/gpus",
            "uuids=/x",
        ),
        *(
            'directory="/a',
            "directory='/a' b",
            "directory=/a$HOME",
            "order=pci\r",
            "order=pci\N{NO-BREAK SPACE}",
            "\x7fELF",
        ),
    ],
)
def test_a_line_that_is_no_setting_is_not_run_and_nothing_is_written_down(tmp_path, line):
    """What an index means might be in that very line."""
    machine = Machine(tmp_path, line)
    assert f"{machine.settings} is not used" in machine.prolog(gpus="0")
    assert files_of(machine) == []
    machine.epilog()
    assert not (machine.root / "x").exists()


@settings(max_examples=40)
@given(st.binary(max_size=60) | st.text("=orderpcidirectory/'\"# \n$`\\", max_size=60).map(str.encode))
def test_whatever_the_settings_are_a_job_is_written_down_as_without_them_or_not_at_all(tmp_path_factory, junk):
    machine = Machine(tmp_path_factory.mktemp("machine"))
    known = machine.settings.read_bytes()
    machine.settings.write_bytes(junk + b"\n" + known)
    said = machine.prolog(gpus="1")
    assert files_of(machine) == [] if said else list(machine.jobs()) == [uuid(1)]
    assert said.count("\n") <= 1
    machine.settings.write_bytes(known + junk)
    machine.epilog()


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666, 0o777, 0o622, 0o4664])
@pytest.mark.parametrize("name", ["settings", "map"])
def test_a_file_that_others_may_write_to_is_not_believed(machine, name, mode):
    machine.write_map(f"0 {uuid(2)}\n")
    path = getattr(machine, name)
    path.chmod(mode)
    assert f"{path} is not used" in machine.prolog()
    assert files_of(machine) == []
    path.chmod(mode & 0o755)
    assert machine.prolog() == ""
    assert list(machine.jobs()) == [uuid(2)]


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o444, 0o755])
def test_a_file_that_only_its_owner_may_write_to_is(machine, mode):
    machine.write_map(f"0 {uuid(2)}\n")
    machine.settings.chmod(mode)
    machine.map.chmod(mode)
    assert machine.prolog() == ""
    assert list(machine.jobs()) == [uuid(2)]


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("name", ["settings", "map"])
def test_another_users_file_is_not_believed(machine, name):
    machine.write_map(f"0 {uuid(2)}\n")
    os.chown(getattr(machine, name), 1000, 1000)
    assert f"{getattr(machine, name)} is not used" in machine.prolog()
    assert files_of(machine) == []


@pytest.mark.parametrize("kind", ["link", "dangling link", "directory", "pipe"])
@pytest.mark.parametrize("name", ["settings", "map"])
def test_what_is_no_plain_file_is_not_believed_nor_waited_for(machine, name, kind):
    path = getattr(machine, name)
    if name == "settings":
        path.rename(machine.root / "elsewhere")
    else:
        (machine.root / "elsewhere").write_text(f"0 {uuid(2)}\n")
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(machine.root / ("elsewhere" if kind == "link" else "nowhere"))
    assert f"{path} is not used" in machine.prolog()
    assert files_of(machine) == []


def test_slurms_own_uuids_need_no_map(machine):
    machine.write_map(f"0 {uuid(2)}\n")
    machine.map.chmod(0o666)
    assert machine.prolog(CUDA_VISIBLE_DEVICES=uuid(9)) == ""
    assert list(machine.jobs()) == [uuid(9)]


def test_the_epilog_does_not_remove_files_where_settings_that_others_may_write_say(machine):
    machine.prolog()
    machine.settings.chmod(0o666)
    assert f"{machine.settings} is not used" in machine.epilog()
    assert list(machine.jobs()) == [uuid(0)]
    machine.settings.chmod(0o644)
    assert machine.epilog() == ""
    assert machine.files() == []


def test_the_epilog_finds_its_directory_among_lines_that_are_no_settings(tmp_path):
    machine = Machine(tmp_path)
    machine.prolog()
    machine.settings.write_text("directory=$(touch x)\ntouch x\n" + machine.settings.read_text() + "order=pic\n")
    assert machine.epilog() == ""
    assert machine.files() == []
    assert not (machine.root / "x").exists()
