"""The prolog and the epilog: which files they leave, for which GPUs, and what becomes of those that were left."""

import json
import os
import stat

import pytest

from dutycycle_exporter.attribution.prolog_directory import PrologDirectory
from tests.slurm.exporters import driver_information

from .machine import BOOT, EARLIER, Machine, uuid


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
    "line",
    [
        *("order=pci", 'order="pci"', "order='pci'", "  order=pci  ", "order=pci # as everywhere here"),
        *("order=minor\norder=pci\n", "# order=minor\n\norder=pci\n\n#", "sharing=no\norder=pci\nsharing=auto"),
    ],
)
def test_settings_are_read_however_they_are_written(tmp_path, line):
    machine = Machine(tmp_path, line)
    assert machine.prolog(gpus="0") == ""
    assert list(machine.jobs()) == [uuid(3)]


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_prolog_and_epilog_read_the_same_directory(tmp_path, quote):
    directory = tmp_path / ("jobs" if not quote else "its jobs")
    machine = Machine(tmp_path, f"directory={quote}{directory}{quote} # ours")
    machine.directory = directory
    assert machine.prolog() == ""
    assert machine.files() == [f"{uuid(0)}.7.json"]
    assert machine.epilog() == ""
    assert machine.files() == []


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
    machine.write_map(f"# index, UUID\n0 {uuid(2)}\n1 MIG-bbbb-1 # 1g.10gb\n\nx y\n08 {uuid(0)}\n2 $(touch x)\n")
    machine.prolog(7, "0,1,8")
    assert machine.files() == sorted([f"{uuid(0)}.7.json", f"{uuid(2)}.7.json", "MIG-bbbb-1.7.json"])


def test_uuids_that_slurm_knows_go_before_all(machine):
    machine.write_map(f"0 {uuid(2)}\n")
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


@pytest.mark.parametrize("line", ["GPU Excluded:\t Yes", "Blacklisted:\t Yes"])
def test_an_excluded_gpu_is_not_counted(machine, line):
    text = driver_information(uuid(0), "0000:90:00.0", 0).replace("GPU Excluded:\t No", line)
    machine.add_gpu("0000:90:00.0", 0, text)
    machine.prolog(gpus="0")
    assert list(machine.jobs()) == [uuid(1)]


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
