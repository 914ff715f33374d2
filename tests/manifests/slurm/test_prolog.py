"""The prolog and the epilog as Slurm calls them: which files they leave, and that nothing makes a job fail."""

import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutycycle_exporter.attribution.prolog_directory import PrologDirectory
from tests.slurm.exporters import driver_information

SLURM = Path(__file__).parents[3] / "manifests/slurm"
BOOT, EARLIER = "8f0f8c3e-0d9b-4a53-8f39-0c1ac5be1e3d", "11111111-0d9b-4a53-8f39-0c1ac5be1e3d"


def uuid(number):
    return f"GPU-aaaaaaaa-0000-0000-0000-{number:012d}"


class Machine:
    """A node of four GPUs. The minor numbers run against the PCI addresses; UUIDs are numbered by minor."""

    def __init__(self, root, *settings):
        self.root = root
        self.directory = root / "run/slurm"
        self.gpus = root / "gpus"
        self.map = root / "gpus.map"
        self.boot(BOOT)
        for minor in range(4):
            self.add_gpu(f"0000:{0x90 - 0x10 * minor:02x}:00.0", minor)
        paths = {"directory": self.directory, "nvidia": self.gpus, "map": self.map, "boot_id": root / "boot_id"}
        self.settings = root / "prolog.conf"
        self.settings.write_text("".join(f"{name}='{path}'\n" for name, path in paths.items()) + "\n".join(settings))

    def boot(self, boot_id):
        (self.root / "boot_id").write_text(f"{boot_id}\n")

    def add_gpu(self, bus_id, minor, text=None):
        entry = self.gpus / bus_id
        entry.mkdir(parents=True, exist_ok=True)
        text = driver_information(uuid(minor), bus_id, minor) if text is None else text
        (entry / "information").write_bytes(text.encode() if isinstance(text, str) else text)

    def run(self, what, job=7, gpus="0", **environment):
        """What slurmd does: no search path, no terminal. The exit code is what it would see."""
        environment = {"SLURM_JOB_ID": str(job), "SLURM_JOB_UID": "1000", **environment}
        if gpus is not None:
            environment |= {"SLURM_JOB_GPUS": gpus}
        done = subprocess.run(
            [SLURM / f"{what}.d/dutycycle.sh", self.settings],
            env={name: value for name, value in environment.items() if value is not None},
            capture_output=True,
            cwd=self.root,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, b"")
        return done.stderr.decode()

    def prolog(self, *arguments, **environment):
        return self.run("prolog", *arguments, **environment)

    def epilog(self, job=7, **environment):
        return self.run("epilog", job, **environment)

    def files(self):
        return sorted(file.name for file in self.directory.glob("*.json"))

    def read(self, gpu=0, job=7):
        return json.loads((self.directory / f"{uuid(gpu)}.{job}.json").read_text())

    def jobs(self):
        """What the exporter makes of it."""
        files = PrologDirectory(self.directory, (self.root / "boot_id").read_text().strip()).read()
        assert files.failures == {}
        return {gpu: [job.name for job in jobs] for gpu, jobs in files.jobs.items()}


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_file_for_each_gpu_of_the_job(machine):
    said = machine.prolog(
        gpus="1,3",
        SLURM_JOB_USER="ada",
        SLURM_JOB_ACCOUNT="physics",
        SLURM_JOB_PARTITION="gpu",
        SLURM_NODELIST="n[1-2]",
        SLURM_JOB_RESTART_COUNT="2",
        SLURM_JOB_SLUID="sEKNKTV3WPV500",
        SLURM_HET_JOB_ID="6",
    )
    assert said == ""
    assert machine.files() == [f"{uuid(1)}.7.json", f"{uuid(3)}.7.json"]
    fields = machine.read(1)
    assert fields.pop("start") > 1_700_000_000
    assert fields == {
        "job_id": 7,
        "uid": 1000,
        "boot_id": BOOT,
        "sluid": "sEKNKTV3WPV500",
        "het_job_id": 6,
        "restarts": 2,
        "user": "ada",
        "account": "physics",
        "partition": "gpu",
        "nodelist": "n[1-2]",
    }
    assert machine.jobs() == {uuid(1): ["7"], uuid(3): ["7"]}


def test_the_epilog_removes_the_jobs_files_and_no_others(machine):
    machine.prolog(7, "0,1")
    machine.prolog(77, "2")
    machine.epilog(7, gpus=None)
    assert machine.files() == [f"{uuid(2)}.77.json"]
    machine.epilog(7)
    assert machine.files() == [f"{uuid(2)}.77.json"]


def test_a_task_of_an_array_is_named_where_slurm_tells(machine):
    machine.prolog(SLURM_ARRAY_JOB_ID="5", SLURM_ARRAY_TASK_ID="0")
    assert machine.jobs() == {uuid(0): ["5_0"]}


@pytest.mark.parametrize("half", [{"SLURM_ARRAY_JOB_ID": "5"}, {"SLURM_ARRAY_TASK_ID": "3"}])
def test_half_the_name_of_an_array_task_is_none(machine, half):
    machine.prolog(**half)
    assert machine.jobs() == {uuid(0): ["7"]}


def test_directory_and_files_can_be_read_by_all_and_written_by_one(machine):
    previous = os.umask(0)
    try:
        machine.prolog()
    finally:
        os.umask(previous)
    assert stat.S_IMODE(machine.directory.stat().st_mode) == 0o755
    assert stat.S_IMODE((machine.directory / f"{uuid(0)}.7.json").stat().st_mode) == 0o644


# Which GPU an index is.


def test_an_index_counts_device_files(machine):
    machine.prolog(gpus="0,1,2,3")
    assert list(machine.jobs()) == [uuid(0), uuid(1), uuid(2), uuid(3)]


def test_a_gpu_that_is_named_twice_is_one(machine):
    assert machine.prolog(gpus="1,1,0,1") == ""
    assert list(machine.jobs()) == [uuid(0), uuid(1)]


@pytest.mark.parametrize(("order", "first"), [("pci", 3), ("minor", 0)])
def test_the_site_can_say_what_an_index_counts(tmp_path, order, first):
    machine = Machine(tmp_path, f"order={order}")
    machine.prolog(gpus="0")
    assert list(machine.jobs()) == [uuid(first)]


@pytest.mark.parametrize(
    ("gres", "first"),
    [
        ("AutoDetect=nvml\n", 3),
        ("# all\nNodeName=n[1-9]  autodetect = NVML\n", 3),
        ("AutoDetect=off\nName=gpu File=/dev/nvidia[0-3]\n", 0),
        ("Name=gpu File=/dev/nvidia[0-3] # AutoDetect=nvml\n", 0),
        ("#AutoDetect=nvml\n", 0),
        ("", 0),
        (None, 0),
    ],
)
def test_slurm_that_detects_gpus_by_nvml_counts_pci_addresses(machine, gres, first):
    if gres is not None:
        (machine.root / "gres.conf").write_text(gres)
    assert machine.prolog(gpus="0", SLURM_CONF=str(machine.root / "slurm.conf")) == ""
    assert list(machine.jobs()) == [uuid(first)]


def test_a_map_of_the_site_goes_before(machine):
    machine.map.write_text(f"# index, UUID\n0 {uuid(2)}\n1 MIG-bbbb-1 # 1g.10gb\n\nx y\n08 {uuid(0)}\n2 $(touch x)\n")
    machine.prolog(7, "0,1,8")
    assert machine.files() == sorted([f"{uuid(0)}.7.json", f"{uuid(2)}.7.json", "MIG-bbbb-1.7.json"])


def test_uuids_that_slurm_knows_go_before_all(machine):
    machine.map.write_text(f"0 {uuid(2)}\n")
    machine.prolog(7, "0,1", CUDA_VISIBLE_DEVICES=f"{uuid(9)},MIG-cccc-2")
    assert machine.files() == [f"{uuid(9)}.7.json", "MIG-cccc-2.7.json"]


@pytest.mark.parametrize("visible", ["0", "NoDevFiles", "", f"{uuid(9)},1", "GPU-../../x", "GPU-a,GPU-$(touch x)"])
def test_visible_devices_that_are_no_uuids_are_not_used(machine, visible):
    machine.prolog(7, "0", CUDA_VISIBLE_DEVICES=visible)
    assert machine.files() == [f"{uuid(0)}.7.json"]


@pytest.mark.parametrize("gpus", [None, ""])
def test_a_job_without_gpus_leaves_nothing(machine, gpus):
    assert machine.prolog(7, gpus) == ""
    assert not machine.directory.exists()


def test_an_excluded_gpu_is_not_counted(machine):
    text = driver_information(uuid(0), "0000:90:00.0", 0).replace("Excluded:\t No", "Excluded:\t Yes")
    machine.add_gpu("0000:90:00.0", 0, text)
    machine.prolog(gpus="0")
    assert list(machine.jobs()) == [uuid(1)]


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


# Files of jobs that are gone.


def test_a_requeued_job_comes_back_as_the_same_job(machine):
    machine.prolog()
    machine.epilog()
    machine.prolog(SLURM_JOB_RESTART_COUNT="1")
    assert machine.read()["restarts"] == 1
    assert machine.files() == [f"{uuid(0)}.7.json"]


def slurm_conf(machine, types):
    conf = machine.root / "slurm.conf"
    conf.write_text(f"# GresTypes=shard\nClusterName=x\n{types}\nNodeName=DEFAULT CPUs=2\n")
    return {"SLURM_CONF": str(conf)}


@pytest.mark.parametrize("types", ["GresTypes=gpu", "grestypes = gpu,nic"])
def test_where_a_gpu_has_one_job_the_next_one_supersedes_what_an_epilog_left(machine, types):
    conf = slurm_conf(machine, types)
    machine.prolog(7, "0,1", **conf)
    (machine.directory / f"{uuid(1)}.json").write_text(json.dumps({"job_id": 6, "uid": 1}))
    machine.prolog(8, "1,2", **conf)
    assert machine.jobs() == {uuid(0): ["7"], uuid(1): ["8"], uuid(2): ["8"]}


@pytest.mark.parametrize("types", ["GresTypes=gpu,shard", "GresTypes=mps,gpu", "GresTypes=gpu\nGresTypes=shard", ""])
def test_where_gpus_are_shared_every_job_keeps_its_file(machine, types):
    conf = slurm_conf(machine, types)
    machine.prolog(7, **conf)
    machine.prolog(8, **conf)
    assert machine.jobs() == {uuid(0): ["7", "8"]}
    machine.epilog(7)
    assert machine.jobs() == {uuid(0): ["8"]}


@pytest.mark.parametrize(("sharing", "names"), [("yes", ["7", "8"]), ("no", ["8"])])
def test_the_site_can_say_whether_gpus_are_shared(tmp_path, sharing, names):
    machine = Machine(tmp_path, f"sharing={sharing}")
    machine.prolog(7)
    machine.prolog(8)
    assert machine.jobs() == {uuid(0): names}


def test_after_a_boot_no_earlier_file_counts_and_the_next_job_removes_it(machine):
    machine.prolog(7, "0,1", SLURM_CONF="/nowhere")
    machine.boot(EARLIER)
    assert PrologDirectory(machine.directory, EARLIER).read().jobs == {}
    machine.prolog(8, "0", SLURM_CONF="/nowhere")
    assert machine.files() == [f"{uuid(0)}.8.json", f"{uuid(1)}.7.json"]


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_another_users_directory_and_settings_are_not_used(machine):
    machine.directory.mkdir(parents=True)
    os.chown(machine.directory, 1000, 1000)
    assert "not owned" in machine.prolog()
    assert not list(machine.directory.iterdir())
    os.chown(machine.settings, 1000, 1000)
    assert str(machine.settings) in machine.prolog(gpus="0", SLURM_JOB_ID="x")


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="no /dev/full")
def test_a_full_disk_fails_no_job(machine):
    (machine.directory / ".new").mkdir(parents=True)
    (machine.directory / ".new" / f"{uuid(0)}.7.json").symlink_to("/dev/full")
    assert "not every file" in machine.prolog(gpus="0,1")
    assert list(machine.jobs()) == [uuid(1)]


def test_the_scripts_are_clean():
    if shutil.which("shellcheck") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("shellcheck is missing; CI must check the scripts")
        pytest.skip("no shellcheck")
    scripts = [str(script) for script in sorted(SLURM.rglob("*.sh"))]
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False)
    assert (len(scripts), done.stdout) == (2, "")


@pytest.mark.parametrize("what", ["prolog", "epilog"])
def test_the_scripts_can_be_run(what):
    script = SLURM / f"{what}.d/dutycycle.sh"
    assert script.stat().st_mode & 0o111 == 0o111
    assert script.read_text().startswith("#!/bin/bash -p\n")
