"""Small parts of the chain: time, what is overdue, kinds of jobs, names, feeding."""

from __future__ import annotations

import threading
import time
from multiprocessing import Pipe
from pathlib import Path

import pytest

from benchmarks.box import __main__ as command
from benchmarks.box.clock import Clock
from benchmarks.box.model import Fault, Job, Phase, Scenario
from benchmarks.box.nodes import fleet
from benchmarks.box.nodes.crowd import CrowdNode
from benchmarks.box.nodes.feeding import feed
from benchmarks.box.nodes.protocol import Fed
from benchmarks.box.nodes.schedule import turns
from benchmarks.box.nodes.settings import NodeSettings
from benchmarks.box.outcome import Names
from benchmarks.box.site import kinds
from benchmarks.box.watch import overdue
from benchmarks.exits import NOT_HERE
from tests.fakes.cgroup import Use
from tests.fakes.nvml import GpuProcess, Level, Load


def job(number: int, *, start: float = 0.0, node: str = "a", partition: str = "batch", scheduler: str = "slurm") -> Job:
    return Job(number, "ada", "lab", partition, "", {}, False, 1, start, start + 100, ((node, 0),), scheduler=scheduler)


def test_a_clock_goes_both_ways() -> None:
    clock = Clock(1_000.0, 60.0)
    assert clock.wall(120.0) == 1_002.0
    assert clock.scenario(1_002.0) == 120.0


def test_overdue_is_what_is_late_by_more_than_an_interval() -> None:
    assert overdue([1.0, 2.0, 3.9], 1.0, 0.0, 5.0) == 0
    # Nothing from 2 to 7: one second is the interval, one more is let pass.
    assert overdue([1.0, 2.0, 7.0, 8.0, 9.0], 1.0, 0.0, 10.0) == pytest.approx(0.3)
    assert overdue([], 1.0, 0.0, 10.0) == pytest.approx(0.8)


def test_pods_have_no_partition_and_are_named() -> None:
    jobs = [job(1, partition="interactive"), job(2, partition="serving", scheduler="k8s"), job(3, scheduler="k8s")]
    assert kinds(jobs) == [
        {"partition": "interactive", "kind": "interactive"},
        {"partition": "serving", "kind": "serving"},
        {"workload": ["k8s/ada/train-2/*"], "kind": "serving"},
    ]


def test_a_pod_without_uid_is_known_by_its_name() -> None:
    pod = job(12, scheduler="k8s")
    names = Names([pod, job(13)])
    assert names.workload("k8s/ada/train-12/") == names.workload(pod.workload) == pod.workload
    assert names.workload("slurm/13") == "slurm/13"
    assert names.workload("k8s/ada/other/") == "k8s/ada/other/"


def test_jobs_are_fed_to_the_processes_of_their_nodes_in_the_order_of_their_starts() -> None:
    control, its_control = Pipe()
    (a, to_a), (b, to_b) = Pipe(duplex=False), Pipe(duplex=False)
    jobs = [job(3, start=50.0, node="b"), job(1), job(2, node="b"), job(4, start=1e6)]
    made: list[int] = []

    def courses(of: Job) -> tuple[Phase, ...]:
        made.append(of.number)
        return (Phase(0.0, (), ()),)

    feeder = threading.Thread(target=feed, args=(jobs, courses, 100.0, its_control, [(["a"], to_a), (["b"], to_b)]))
    feeder.start()
    assert control.recv() == 3
    control.send(Clock(time.time(), 100.0))
    fed = [a.recv(), b.recv(), b.recv()]
    # The last one is not due for long; it is told to stop before.
    control.send(None)
    feeder.join(10)
    assert not feeder.is_alive()
    assert [one.job.number for one in fed if isinstance(one, Fed)] == [1, 2, 3]
    assert made == [1, 2, 3]
    assert a.recv() is None
    assert b.recv() is None


def test_nodes_keep_their_places_in_the_interval_however_long_all_had_to_wait() -> None:
    found = turns(["a", "b", "c", "d"], 10.0, 100.0)
    assert [turn.due for turn in found.values()] == [100.0, 102.5, 105.0, 107.5]
    assert [turn.take(now) for turn, now in zip(found.values(), (100.0, 112.4, 125.0, 145.0), strict=True)] == [
        0,
        0,
        2,
        3,
    ]
    assert [turn.due for turn in found.values()] == [110.0, 112.5, 135.0, 147.5]


@pytest.mark.parametrize(
    ("doubles", "real", "crowds"),
    [
        (0, [], [["n0", "n2", "n4"], ["n1", "n3", "n5"]]),
        (1, [["n0"]], [["n1", "n3", "n5"], ["n2", "n4"]]),
        (4, [["n0", "n1", "n2", "n3"]], [["n4"], ["n5"]]),
        (6, [["n0", "n2", "n4"], ["n1", "n3", "n5"]], [[], []]),
    ],
)
def test_nodes_are_spread_over_processes_each_once(
    tmp_path: Path, doubles: int, real: list[list[str]], crowds: list[list[str]]
) -> None:
    names = tuple(f"n{number}" for number in range(6))
    of = fleet.Fleet(Scenario(1, names, 1, 10.0, ()), lambda _: (), tmp_path, NodeSettings(), doubles)
    assert [list(nodes) for nodes in of._real] == real
    assert [list(crowd) for crowd in of._crowds] == crowds


WORK = (Phase(0.0, (Load(Level(0.5), [GpuProcess(1, 2**30)]),), (Use(cpu_cores=1.0),)),)


def crowd(directory: Path) -> CrowdNode:
    return CrowdNode("a", 2, directory, NodeSettings(time_scale=10.0, interval=5.0, read_interval=5.0), 1_000.0)


def shown(node: CrowdNode, name: str, *labels: str) -> float | None:
    for line in node.page().splitlines():
        if line.startswith(f"{name}{{") and all(label in line for label in labels):
            return float(line.rpartition(" ")[2])
    return None


def test_a_job_on_a_crowd_node_has_exactly_its_time(tmp_path: Path) -> None:
    node = crowd(tmp_path)
    node.add(job(1), WORK, Clock(1_001.3, 10.0))
    for tenth in range(105):
        node.read(1_000.0 + tenth / 10)
    # Ten seconds, of which the exporter has read nine and eleven more than a tenth.
    mine = ('gpu="0"', 'workload="slurm/1"')
    assert shown(node, "workload_gpu_allocated_seconds_total", *mine) == pytest.approx(9.1, abs=0.11)
    assert shown(node, "workload_gpu_busy_seconds_total", *mine) == pytest.approx(4.55, abs=0.06)
    assert shown(node, "gpu_allocation", *mine) == 1
    for tenth in range(105, 120):
        node.read(1_000.0 + tenth / 10)
    assert shown(node, "gpu_allocation", *mine) is None
    assert shown(node, "workload_gpu_allocated_seconds_total", *mine) == pytest.approx(10.0, abs=0.11)


def test_faults_happen_to_their_gpu_alone_and_pass(tmp_path: Path) -> None:
    node, clock = crowd(tmp_path), Clock(1_000.0, 10.0)
    # A new series is held at 0 for a while by the clock of the exporter's own service.
    times = [0.0]
    node._service._elapsed = lambda: times[0]
    for fault in (
        Fault(("a", 0), 5.0, "xid", 79),
        Fault(("a", 1), 10.0, "lost", until=20.0),
        Fault(("a", 0), 10.0, "leaked", 2e9, until=20.0),
        Fault(("a", 0), 10.0, "thermal", 0.5, until=20.0),
    ):
        node.afflict(fault, clock)
    for tenth in range(16):
        node.read(1_000.0 + tenth / 10)
    assert shown(node, "gpu_visible") == 1
    assert shown(node, "gpu_utilization_ratio", 'gpu="1"') is None
    assert shown(node, "gpu_memory_used_bytes", 'gpu="0"') == 2e9
    for tenth in range(16, 30):
        node.read(1_000.0 + tenth / 10)
    assert shown(node, "gpu_visible") == 2
    assert shown(node, "gpu_memory_used_bytes", 'gpu="0"') == 0
    assert shown(node, "gpu_throttle_seconds_total", 'gpu="0"', "sw_thermal") == pytest.approx(0.5)
    assert shown(node, "gpu_throttle_seconds_total", 'gpu="1"', "sw_thermal") == 0
    assert shown(node, "gpu_xid_errors_total", 'gpu="0"', 'xid="79"') == 0
    times[0] = 60.0
    assert shown(node, "gpu_xid_errors_total", 'gpu="0"', 'xid="79"') == 1
    with pytest.raises(ValueError, match="no fault"):
        node.afflict(Fault(("a", 0), 0.0, "rain"), clock)


def test_a_machine_that_lacks_something_says_what(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_gcc", lambda: None)
    assert command.main(["--quick"]) == NOT_HERE
    assert "cannot run here: gcc is missing" in capsys.readouterr().err
