"""Nothing that users, the driver or a full disk do makes the prolog run something, lie, or fail a job."""

import os
import re
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.required import lacking
from tests.slurm.exporters import driver_information

from .machine import SLURM, Machine, uuid

# What the driver says.


@pytest.mark.parametrize(
    "text",
    [
        driver_information("GPU-????????-????-????-????-????????????", "0000:90:00.0", 0),
        "Device Minor: 0\nGPU UUID: ../../etc/passwd\n",
        "Device Minor: 0\nGPU UUID: $(touch x)\n",
        "Device Minor: 0\n",
    ],
    ids=["not initialized", "a path", "a command", "none"],
)
def test_a_gpu_whose_uuid_the_driver_does_not_tell_is_left_out_and_logged(machine, text):
    machine.add_gpu("0000:90:00.0", 0, text)
    assert "GPU 0" in machine.prolog(gpus="0,1")
    assert list(machine.jobs()) == [uuid(1)]
    assert not (machine.root / "x").exists()


@pytest.mark.parametrize("text", ["", "\0\n\xff", b"\xff" * 9000, "GPU UUID\n:\n::::\n" * 50])
def test_nonsense_of_the_driver_is_survived(machine, text):
    machine.add_gpu("0000:a0:00.0", 9, text)
    machine.prolog(gpus="1")
    assert list(machine.jobs()) == [uuid(1)]


def test_without_a_driver_there_is_no_file_and_the_job_runs(machine):
    shutil.rmtree(machine.gpus)
    assert "none of the job's GPUs" in machine.prolog()
    assert not machine.directory.exists()


@pytest.mark.parametrize("gpus", ["9", "-1", "0x1", "a[$(touch x)]", "1;touch x", "*", "99999999999999999999", ",,"])
def test_indexes_that_are_none_are_left_out(machine, gpus):
    assert machine.prolog(gpus=gpus)
    assert not list(machine.root.rglob("*.json"))
    assert not (machine.root / "x").exists()


# What users may choose.

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


@settings(max_examples=40)
@given(st.fixed_dictionaries({"SLURM_JOB_USER": TEXTS, "SLURM_JOB_ACCOUNT": TEXTS, "SLURM_JOB_PARTITION": TEXTS}))
def test_whatever_the_names_are_the_file_says_what_of_them_is_printable_ascii(tmp_path_factory, names):
    machine = Machine(tmp_path_factory.mktemp("machine"))
    machine.prolog(**names)
    fields = machine.read()
    for variable, value in names.items():
        expected = re.sub(rb"[^ -~]", b"?", value.encode()).decode()
        assert fields.get(variable.removeprefix("SLURM_JOB_").lower(), "") == expected
    assert machine.jobs() == {uuid(0): ["7"]}


@pytest.mark.parametrize(
    ("account", "written"),
    [
        ('"},"uid":0', '"},"uid":0'),
        ("a\\", "a\\"),
        ("\\\\&\\n$&", "\\\\&\\n$&"),
        ("$(touch x)`touch x`", "$(touch x)`touch x`"),
        ("%s%n%d", "%s%n%d"),
        ("-n", "-n"),
        ("*", "*"),
        ("a\nb\tc\x1b[31m\x7f", "a?b?c?[31m?"),
        ("x" * 5000, "x" * 256),
        ("\\" * 300, "\\" * 256),
        ("é", "??"),
    ],
)
def test_hostile_names(machine, account, written):
    machine.prolog(SLURM_JOB_ACCOUNT=account)
    assert machine.read()["account"] == written
    assert machine.read()["uid"] == 1000
    assert machine.jobs() == {uuid(0): ["7"]}
    assert not (machine.root / "x").exists()


@pytest.mark.parametrize("sluid", ["", "x", 's"},"uid":0', "sEKNKTV3WPV5000", "sEKNKTV3WPV50\n"])
def test_a_sluid_that_is_none_is_left_out(machine, sluid):
    machine.prolog(SLURM_JOB_SLUID=sluid)
    assert "sluid" not in machine.read()
    assert machine.jobs() == {uuid(0): ["7"]}


def test_bytes_that_are_no_text_become_question_marks(machine):
    machine.prolog(SLURM_JOB_ACCOUNT=os.fsdecode(b"a\xff\xc3"))
    assert machine.read()["account"] == "a??"


@pytest.mark.parametrize("number", ["", "x", "-1", "1.5", "7 8", "../7", "$(touch x)", "9" * 30, "7\n8"])
@pytest.mark.parametrize("variable", ["SLURM_JOB_ID", "SLURM_JOB_UID"])
def test_numbers_that_are_none_leave_nothing(machine, variable, number):
    assert "not a number" in machine.prolog(**{variable: number})
    machine.epilog(**{variable: number})
    assert not machine.directory.exists()
    assert not (machine.root / "x").exists()


@pytest.mark.parametrize("variable", ["BASH_ENV", "ENV", "IFS", "SHELLOPTS", "BASH_FUNC_printf%%", "PATH", "CDPATH"])
def test_the_environment_changes_nothing(machine, variable):
    (machine.root / "evil").write_text("touch x\n")
    values = {"BASH_FUNC_printf%%": "() { touch x; }", "IFS": "0,", "SHELLOPTS": "noglob:noexec"}
    machine.prolog(gpus="0,1", **{variable: values.get(variable, str(machine.root / "evil"))})
    assert not (machine.root / "x").exists()
    if variable != "SHELLOPTS":
        assert list(machine.jobs()) == [uuid(0), uuid(1)]


# Where it cannot write.


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_no_directory_of_ours_is_left_alone(machine, kind):
    machine.directory.parent.mkdir(parents=True)
    elsewhere = machine.root / "elsewhere"
    elsewhere.mkdir()
    if kind == "file":
        machine.directory.write_text("")
    else:
        machine.directory.symlink_to(elsewhere)
    assert str(machine.directory) in machine.prolog()
    assert not list(machine.root.rglob("*.json"))


@pytest.mark.usefixtures("root")
def test_another_users_directory_is_not_used(machine):
    machine.directory.mkdir(parents=True)
    os.chown(machine.directory, 1000, 1000)
    assert "not owned" in machine.prolog()
    assert not list(machine.directory.iterdir())


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="no /dev/full")
def test_a_full_disk_fails_no_job(machine):
    (machine.directory / ".new").mkdir(parents=True)
    (machine.directory / ".new" / f"{uuid(0)}.7.json").symlink_to("/dev/full")
    assert "not every file" in machine.prolog(gpus="0,1")
    assert list(machine.jobs()) == [uuid(1)]


def test_the_scripts_are_clean():
    if shutil.which("shellcheck") is None:
        lacking("shellcheck")
    scripts = [str(script) for script in sorted((*SLURM.rglob("*.sh"), SLURM / "dutycycle-alerter"))]
    # With all that they take in.
    done = subprocess.run(["shellcheck", "-x", "-a", *scripts], capture_output=True, text=True, check=False)
    assert (len(scripts), done.stdout) == (4, "")


@pytest.mark.parametrize("what", ["prolog", "epilog"])
def test_the_scripts_can_be_run(what):
    script = SLURM / f"{what}.d/dutycycle.sh"
    assert script.stat().st_mode & 0o111 == 0o111
    assert script.read_text().startswith("#!/bin/bash -p\n")
