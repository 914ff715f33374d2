"""The fake /proc, cgroup and sysfs trees read as the kernel's do."""

import os
import time
from pathlib import Path

import pytest

from tests.fakes.cgroup import CgroupTree, Use, pod_container, slurm_task, user_session
from tests.fakes.pci import AUDIO, BRIDGE, PciTree
from tests.fakes.proc import CLOCK_TICKS, FakeProcess, ProcTree


def test_a_process_reads_as_in_proc(tmp_path):
    tree = ProcTree(tmp_path / "proc", boot_time=1_700_000_000)
    tree.add(
        FakeProcess(
            4242,
            1_700_000_100.5,
            "/user.slice",
            ("python", "-m", "train"),
            "py) S (x",
            uid=1000,
            ppid=7,
            pgid=4000,
            session=3999,
            environ={"SLURM_JOB_ID": "7"},
        )
    )
    directory = tree.root / "4242"
    stat = (directory / "stat").read_text()
    assert stat.startswith("4242 (py) S (x) S 7 4000 3999 ")
    after_comm = stat[stat.rindex(")") + 2 :].split()
    assert len(after_comm) + 2 == 52
    assert int(after_comm[19]) == round(100.5 * CLOCK_TICKS)
    assert (directory / "cmdline").read_bytes() == b"python\0-m\0train\0"
    assert (directory / "environ").read_bytes() == b"SLURM_JOB_ID=7\0"
    assert (directory / "cgroup").read_text() == "0::/user.slice\n"
    assert "Uid:\t1000\t1000\t1000\t1000\n" in (directory / "status").read_text()
    assert "btime 1700000000\n" in (tree.root / "stat").read_text()
    tree.remove(4242)
    assert not directory.exists()


def test_the_tree_has_the_fields_of_the_real_one(tmp_path):
    """The number of fields in stat, and the names that are read from status, are those of this kernel."""
    tree = ProcTree(tmp_path / "proc")
    tree.add(FakeProcess(1, time.time()))
    real = Path("/proc/self")
    ours = (tree.root / "1/stat").read_text()
    assert len(ours.split()) == len((real / "stat").read_text().rsplit(")", 1)[1].split()) + 2
    names = [line.split(":")[0] for line in (real / "status").read_text().splitlines()]
    ours = [line.split(":")[0] for line in (tree.root / "1/status").read_text().splitlines()]
    assert set(ours) <= set(names)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_process_belongs_to_its_user(tmp_path):
    tree = ProcTree(tmp_path / "proc")
    tree.add(FakeProcess(5, time.time(), uid=1234))
    assert (tree.root / "5").stat().st_uid == 1234


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (slurm_task(77), "/system.slice/slurmstepd.scope/job_77/step_0/user/task_0"),
        (
            slurm_task(77, step="batch", scope="n1_slurmstepd.scope"),
            "/system.slice/n1_slurmstepd.scope/job_77/step_batch/user/task_0",
        ),
        (
            pod_container("1b-2c", "abc"),
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b_2c.slice/cri-containerd-abc.scope",
        ),
        (
            pod_container("1b-2c", "abc", qos="guaranteed", runtime="crio"),
            "/kubepods.slice/kubepods-pod1b_2c.slice/crio-abc.scope",
        ),
        (user_session(1000, 3), "/user.slice/user-1000.slice/session-3.scope"),
    ],
)
def test_cgroup_paths(path, expected):
    assert path == expected


def read(tree, path, name):
    return (tree.root / path.strip("/") / name).read_text()


def counter(tree, path, name, key):
    for line in read(tree, path, name).splitlines():
        if line.startswith(key + " "):
            return int(line.rsplit("=", 1)[-1].rsplit(" ", 1)[-1])
    raise AssertionError(key)


def test_counters_advance_with_the_declared_use_and_add_up_in_ancestors(tmp_path):
    tree = CgroupTree(tmp_path / "cgroup")
    one, two = slurm_task(1), slurm_task(2)
    tree.advance(1_000_000)
    for path in (one, two):
        tree.add(path)
    tree.use(one, Use(cpu_cores=7.5, io_pressure=0.3, memory=100), [10, 11])
    tree.use(two, Use(cpu_cores=0.5, io_pressure=0.1, cpu_pressure=0.2, memory=50))
    tree.advance(11_000_000)
    assert counter(tree, one, "cpu.stat", "usage_usec") == 75_000_000
    assert counter(tree, one, "io.pressure", "some") == 3_000_000
    assert read(tree, one, "io.pressure").startswith("some avg10=30.00 avg60=30.00 avg300=30.00 total=3000000\nfull ")
    assert read(tree, one, "cgroup.procs") == "10\n11\n"
    assert counter(tree, "/system.slice", "cpu.stat", "usage_usec") == 80_000_000
    assert counter(tree, "/system.slice", "io.pressure", "some") == 3_000_000
    assert counter(tree, "/system.slice", "cpu.pressure", "some") == 2_000_000
    assert read(tree, "/system.slice", "memory.current") == "150\n"
    assert counter(tree, "/", "cpu.stat", "usage_usec") == 80_000_000


def test_what_a_removed_group_used_stays_in_its_ancestors(tmp_path):
    tree = CgroupTree(tmp_path / "cgroup")
    path = slurm_task(1)
    tree.advance(0)
    tree.add(path)
    tree.use(path, Use(cpu_cores=2))
    tree.advance(1_000_000)
    tree.remove("/system.slice/slurmstepd.scope/job_1")
    tree.advance(2_000_000)
    assert not (tree.root / "system.slice/slurmstepd.scope/job_1").exists()
    assert counter(tree, "/system.slice/slurmstepd.scope", "cpu.stat", "usage_usec") == 2_000_000


def test_limits_are_where_their_owner_sets_them(tmp_path):
    tree = CgroupTree(tmp_path / "cgroup", cpus=16)
    job = "/system.slice/slurmstepd.scope/job_1"
    tree.add(job, cpuset="0-3")
    pod = pod_container("u", "c")
    tree.add(pod, cpu_limit=2.5)
    assert read(tree, job, "cpuset.cpus.effective") == "0-3\n"
    assert read(tree, job, "cpu.max") == "max 100000\n"
    assert read(tree, pod, "cpu.max") == "250000 100000\n"
    assert read(tree, pod, "cpuset.cpus.effective") == "0-15\n"
    assert not (tree.root / "cpu.max").exists()


def test_pci_devices_read_as_in_sysfs(tmp_path):
    tree = PciTree(tmp_path / "sys")
    tree.add("0000:1b:00.0")
    tree.add("0000:05:00.0", pci_class=BRIDGE, device=0x22A3)
    tree.add("0000:1b:00.1", pci_class=AUDIO)
    devices = tmp_path / "sys/bus/pci/devices"
    assert (devices / "0000:1b:00.0/class").read_text() == "0x030200\n"
    assert (devices / "0000:1b:00.0/vendor").read_text() == "0x10de\n"
    assert (devices / "0000:05:00.0/class").read_text() == "0x068000\n"
    assert sorted(path.name for path in devices.iterdir()) == ["0000:05:00.0", "0000:1b:00.0", "0000:1b:00.1"]
    tree.remove("0000:1b:00.0")
    assert len(list(devices.iterdir())) == 2
