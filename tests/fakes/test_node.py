"""A fake node's parts agree about its jobs, and a recording is played as it was written."""

import gzip
import re

import pytest

from tests.fakes.cgroup import Use
from tests.fakes.clock import FakeClock
from tests.fakes.node import FakeNode, Work
from tests.fakes.nvml import RTX_3080_TI, Level, Steps
from tests.fakes.nvml.recording import play, read


@pytest.fixture
def node(nvml_libraries, tmp_path, pynvml_double, monkeypatch):
    with FakeNode(tmp_path / "node", nvml_libraries, name="n1", gpus=2) as node:
        monkeypatch.setenv("NVML_DOUBLE_STATE", node.environment["NVML_DOUBLE_STATE"])
        pynvml_double.nvmlInit()
        yield node
        pynvml_double.nvmlShutdown()


def gpu_pids(nvml, gpu):
    return [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(nvml.nvmlDeviceGetHandleByIndex(gpu))]


@pytest.mark.parametrize(
    ("start", "cgroup"),
    [
        (lambda node, patterns, work: node.slurm_job(7001, patterns, work), r"/slurmstepd\.scope/job_7001/"),
        (lambda node, patterns, work: node.pod("1b-2c", patterns, work), r"/kubepods-burstable-pod1b_2c\.slice/"),
        (lambda node, patterns, work: node.shell_job(patterns, work), r"/user-1001\.slice/"),
    ],
)
def test_a_job_is_seen_alike_by_nvml_proc_and_cgroups(node, pynvml_double, start, cgroup):
    job = start(node, {0: Level(0.5), 1: Level(0.1)}, Work(uid=1001, use=Use(cpu_cores=3)))
    assert [pid for gpu in (0, 1) for pid in gpu_pids(pynvml_double, gpu)] == job.pids
    for pid in job.pids:
        process = node.paths["procfs"] / str(pid)
        path = (process / "cgroup").read_text().removeprefix("0::").strip()
        assert re.search(cgroup, path)
        assert str(pid) in (node.paths["cgroup"] / path[1:] / "cgroup.procs").read_text().split()
        assert f" {job.pids[0]} {job.pids[0]} " in (process / "stat").read_text()
    job.stop()
    assert gpu_pids(pynvml_double, 0) == []
    assert not list(node.paths["procfs"].glob("[0-9]*"))


def test_a_job_may_hold_gpus_without_any_process(node, pynvml_double):
    job = node.slurm_job(1, {0: Level(0)}, Work(processes=False))
    assert gpu_pids(pynvml_double, 0) == job.pids == []
    assert (node.paths["cgroup"] / "system.slice/slurmstepd.scope/job_1").is_dir()


def test_cpu_use_follows_the_job(nvml_libraries, tmp_path):
    clock = FakeClock()
    with FakeNode(tmp_path / "node", nvml_libraries, gpus=1, clock=clock) as node:
        job = node.slurm_job(1, {0: Steps(1, 0.17)}, Work(use=Use(cpu_cores=7.5), cpu_limit=8))
        top = node.paths["cgroup"] / "system.slice/slurmstepd.scope/job_1"
        clock.advance(10)
        job.use(Use(cpu_cores=1, io_pressure=0.5))
        clock.advance(10)
        node.driver.step()
        assert (top / "cpu.stat").read_text().startswith("usage_usec 85000000\n")
        assert (top / "io.pressure").read_text().startswith("some avg10=50.00 avg60=50.00 avg300=50.00 total=5000000\n")
        assert (top / "cpuset.cpus.effective").read_text() == "0-7\n"


def test_every_gpu_of_a_node_is_on_its_bus(node, nvml_libraries, tmp_path):
    devices = node.paths["sysfs"] / "bus/pci/devices"
    assert sorted(path.name for path in devices.iterdir()) == sorted(gpu.bus_id for gpu in node.driver.gpus)
    with FakeNode(tmp_path / "workstation", nvml_libraries, gpus=1, model=RTX_3080_TI) as workstation:
        [device] = (workstation.paths["sysfs"] / "bus/pci/devices").iterdir()
        assert (device / "class").read_text() == "0x030000\n"


RECORDING = """t,node,gpu,workload,utilization_ratio,power_watts,memory_used_bytes,processes
110,n1,0,a,0.2,200,1000,1
120,n1,0,a,0.4,300,3000,1
130,n1,0,a,0.6,400,2000,1
110,n1,1,b,1.0,,,2
120,n1,1,b,,,,2
130,n1,1,b,0.5,,,2
110,n2,0,c,0.9,,,1
"""


@pytest.mark.parametrize("name", ["recording.csv", "recording.csv.gz"])
def test_a_recording_is_played_as_it_was_written(nvml_driver, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(RECORDING.encode()) if name.endswith("gz") else RECORDING.encode())
    clock = FakeClock()
    driver = nvml_driver(clock=clock, time_scale=10)
    gpus = play(driver, read(path), node="n1")
    assert gpus == {"n1/0": 0, "n1/1": 1}
    start = clock.now
    busy = driver.truth.busy_seconds
    assert [busy(0, start + n, start + n + 1) for n in range(4)] == pytest.approx([0.2, 0.4, 0.6, 0])
    assert driver.truth.energy_joules(0, start, start + 3) == pytest.approx(900)
    assert [busy(1, start + n, start + n + 1) for n in range(4)] == pytest.approx([1, 0, 0.5, 0])
    clock.advance(0.5)
    driver.step()
    assert [process.memory_used for process in driver.gpus[0].device.processes[:1]] == [3000]
    assert driver.gpus[1].device.process_count == 2


def test_nodes_of_a_recording_can_be_played_side_by_side(nvml_driver, tmp_path):
    path = tmp_path / "recording.csv"
    path.write_text(RECORDING)
    driver = nvml_driver()
    assert sorted(play(driver, read(path))) == ["n1/0", "n1/1", "n2/0"]
