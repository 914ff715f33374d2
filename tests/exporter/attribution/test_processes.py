"""What /proc tells of a process, also when it ends, hides or lies."""

import contextlib
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.attribution.cgroup import Group
from dutycycle_exporter.attribution.errors import UnusableError
from dutycycle_exporter.attribution.processes import ProcessReader, parse_command, parse_stat, parse_uid
from tests.fakes.cgroup import slurm_task
from tests.fakes.proc import FakeProcess, ProcTree

NOW = 1_700_001_000.0


@pytest.fixture
def proc(tmp_path):
    return ProcTree(tmp_path / "proc")


@pytest.fixture
def reader(proc):
    reader = ProcessReader(proc.root)
    reader.begin(NOW)
    return reader


def reason(reader, pid):
    with pytest.raises(UnusableError) as caught:
        reader.read(pid)
    return caught.value.reason


@pytest.mark.parametrize("comm", ["python", "a b", "x) R 1 2 3 (", ") ) )", "(sd-pam)", ""])
def test_a_process(proc, reader, comm):
    proc.add(FakeProcess(50, NOW - 12.25, slurm_task(7), comm=comm, uid=1000, pgid=40))
    process = reader.read(50)
    assert (process.pid, process.uid, process.pgid) == (50, 1000, 40)
    assert process.start == pytest.approx(NOW - 12.25)
    assert process.group == Group("slurm", "7", (("", "/system.slice/slurmstepd.scope/job_7"),))


def test_a_real_process_is_read_alike():
    reader = ProcessReader(Path("/proc"))
    reader.begin(time.time())
    process = reader.read(os.getpid())
    assert (process.pid, process.uid, process.pgid) == (os.getpid(), os.getuid(), os.getpgrp())
    assert process.start is not None
    # The kernel's time of boot is given in whole seconds.
    assert 0 <= time.time() - process.start + 2 < 7 * 86400


@pytest.mark.parametrize("name", ["stat", "status", "cgroup"])
def test_a_process_that_ends_while_it_is_read_is_gone(proc, reader, name):
    proc.add(FakeProcess(50, NOW - 5))
    (proc.root / "50" / name).unlink()
    assert reason(reader, 50) == "gone"


@pytest.mark.parametrize("pid", [0, 50, 2**32 - 1])
def test_a_process_that_is_not_there_is_gone(reader, pid):
    assert reason(reader, pid) == "gone"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("stat", b""),
        ("stat", b"50 (python"),
        ("stat", b"50 (python) S 1 x"),
        ("stat", b"50 (python) S 1 2 3"),
        ("stat", b"\xff\x00" * 50),
        ("stat", b"50 (python) S 1 " + b"9" * 5000),
        ("status", b""),
        ("status", b"Name:\tUid:\t5\t\n"),
        ("status", b"Uid:\tada\t"),
    ],
)
def test_what_is_not_as_the_kernel_writes_it_is_malformed(proc, reader, name, content):
    proc.add(FakeProcess(50, NOW - 5))
    (proc.root / "50" / name).write_bytes(content)
    assert reason(reader, 50) == "malformed"


def test_a_directory_in_place_of_a_file_is_unreadable(proc, reader):
    proc.add(FakeProcess(50, NOW - 5))
    (proc.root / "50/stat").unlink()
    (proc.root / "50/stat").mkdir()
    assert reason(reader, 50) == "unreadable"


def test_a_hidden_process_is_named_so(proc, reader):
    proc.add(FakeProcess(50, NOW - 5))
    (proc.root / "50/stat").chmod(0)
    user = os.geteuid()
    if user == 0:
        # Nothing is hidden from root.
        os.seteuid(65534)
    try:
        assert reason(reader, 50) == "permission"
    finally:
        os.seteuid(user)


@pytest.mark.parametrize(("error", "expected"), [(PermissionError, "permission"), (ProcessLookupError, "gone")])
def test_what_the_kernel_refuses_is_named(proc, reader, monkeypatch, error, expected):
    """A process that ends under its open files is a matter of luck."""
    proc.add(FakeProcess(50, NOW - 5))

    def refuse(descriptor, size):
        raise error

    monkeypatch.setattr(os, "read", refuse)
    assert reason(reader, 50) == expected


def test_a_process_that_began_after_nvml_answered_is_another_of_the_same_number(proc, reader):
    proc.add(FakeProcess(50, NOW + 1.5))
    proc.add(FakeProcess(51, NOW + 2.5))
    assert reader.read(50).pid == 50
    assert reason(reader, 51) == "reused"
    reader.begin(NOW + 5)
    assert reader.read(51).pid == 51


def set_boot_time(proc, boot_time):
    (proc.root / "stat").write_text(f"cpu  0 0 0\nbtime {boot_time}\n")


def test_a_clock_that_was_set_moves_the_time_of_boot_at_once_where_it_must(proc, reader):
    """The clock is set back by an hour: a process that begins now would seem to begin in an hour."""
    set_boot_time(proc, proc.boot_time - 3600)
    reader.begin(NOW - 3590)
    proc.add(FakeProcess(50, NOW + 5))
    assert reader.read(50).start == pytest.approx(NOW + 5 - 3600)


def test_the_time_of_boot_does_not_waver(proc, reader):
    proc.add(FakeProcess(50, NOW - 5))
    before = reader.read(50).start
    set_boot_time(proc, proc.boot_time + 1)
    reader.begin(NOW + 1000)
    assert reader.read(50).start == before
    set_boot_time(proc, proc.boot_time + 2)
    reader.begin(NOW + 2000)
    assert reader.read(50).start == before + 2


@pytest.mark.parametrize("content", [None, b"", b"btime soon\n", b"xbtime 5\n"])
def test_without_a_time_of_boot_starts_are_not_known(proc, content):
    (proc.root / "stat").unlink()
    if content is not None:
        (proc.root / "stat").write_bytes(content)
    proc.add(FakeProcess(50, NOW - 5))
    reader = ProcessReader(proc.root)
    reader.begin(NOW)
    assert reader.read(50).start is None


def test_a_process_is_read_once_in_a_turn(proc, reader):
    proc.add(FakeProcess(50, NOW - 5))
    first = reader.read(50)
    proc.remove(50)
    assert reader.read(50) is first
    reader.begin(NOW + 5)
    assert reason(reader, 50) == "gone"


@given(st.binary(max_size=15), st.integers(0, 2**31), st.integers(0, 2**63))
def test_any_command_is_passed_over(comm, pgid, ticks):
    numbers = [1, pgid, 3, 0, -1, *[0] * 13, ticks, *[0] * 30]
    stat = b"50 (" + comm + b") S " + " ".join(map(str, numbers)).encode() + b"\n"
    assert parse_stat(stat) == (pgid, ticks)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_process_or_malformed(content):
    """Anything but UnusableError would end the exporter's loop."""
    for parse in (parse_stat, parse_uid):
        with contextlib.suppress(UnusableError):
            parse(content)


@pytest.mark.parametrize(
    ("comm", "command"),
    [
        (b"python", "python"),
        (b"a) S (b", "a) S (b"),
        ("entraîne".encode(), "entraîne"),
        (b"new\nline", ""),
        (b"\x1b[31mred", ""),
        (b"\xff\xfe", "\N{REPLACEMENT CHARACTER}" * 2),
        (b"", ""),
    ],
)
def test_a_command_is_its_name_where_that_can_be_shown(comm, command):
    assert parse_command(b"50 (" + comm + b") S 1 2 3") == command
