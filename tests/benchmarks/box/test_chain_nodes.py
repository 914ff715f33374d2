"""A node of the crowd shows what an exporter's process shows on the NVML double, where both play the same job."""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.box.clock import Clock
from benchmarks.box.model import Job, Phase
from benchmarks.box.nodes.busy import compiled, integral
from benchmarks.box.nodes.crowd import CrowdNode
from benchmarks.box.nodes.double import DoubleNode
from benchmarks.box.nodes.settings import NodeSettings
from dutycycle_exporter.contract import GAP_LENGTHS
from tests.e2e.site import wait_for
from tests.fakes.cgroup import Use
from tests.fakes.nvml import (
    IDLE,
    Curve,
    GpuProcess,
    Level,
    Libraries,
    Load,
    Pattern,
    Paused,
    Piecewise,
    Steps,
    Then,
)
from tests.required import lacking

SCALES = (30.0, 15.0, 7.5, 3.75, 3.75)
"""Times as fast as it is told, in turn until the machine carries it: where it stands still for a moment, that is the
fewer samples the slower time runs.
"""
_SERIES = re.compile(r"^(\w+)(?:{(.*)})? (\S+)$", re.MULTILINE)


def wavering(seed: int, seconds: int) -> Piecewise:
    draw = random.Random(seed)
    return Piecewise([float(i + 1) for i in range(seconds - 1)], [draw.random() for _ in range(seconds)])


@pytest.mark.parametrize(
    "pattern",
    [
        IDLE,
        Level(0.37),
        Steps(2.0, 0.17, offset=0.6),
        Paused(Steps(1.0, 0.5), 20.0, 7.0),
        wavering(1, 90),
        Then(wavering(2, 40), 33.0, Steps(3.0, 0.9)),
    ],
    ids=lambda pattern: type(pattern).__name__,
)
def test_many_instants_at_once_are_as_each_by_itself(pattern: Pattern) -> None:
    times = np.linspace(0.0, 120.0, 1000)
    assert compiled(pattern)(times) == pytest.approx([pattern.busy(float(t)) for t in times], abs=1e-9)


def test_the_integral_of_a_curve_is_the_curves_own() -> None:
    curve = Curve([10.0, 30.0], [100.0, 700.0, 250.0])
    times = np.linspace(0.0, 50.0, 101)
    assert integral(curve)(times) == pytest.approx([curve.integral(float(t)) for t in times])


def test_an_unknown_pattern_is_asked_for_every_instant() -> None:
    class Odd:
        def busy(self, t: float) -> float:
            return min(t, 5.0)

    assert list(compiled(Odd())(np.array([1.0, 7.0]))) == [1.0, 5.0]  # type: ignore[arg-type]


JOB = Job(7, "ada", "physics", "batch", "", {}, False, 1, 0.0, 1e6, (("gpu01", 0), ("gpu01", 1)))
# The steps are no multiple of the samples: one that is half busy would else be so in all of them.
COURSE = (
    Phase(0.0, (Load(Level(0.02), [GpuProcess(1, 2**34)]), Load(IDLE)), (Use(cpu_cores=3.0, io_pressure=0.2),)),
    Phase(
        30.0,
        (
            Load(wavering(3, 300), [GpuProcess(1, 2**35)], power_factor=0.6, activity={"sm": 0.5, "tensor": 0.2}),
            Load(Steps(2.03, 0.3), [GpuProcess(1, 2**33)]),
        ),
        (Use(cpu_cores=6.0, cpu_pressure=0.1),),
        link_bytes=4e9,
    ),
)


def series(page: str) -> dict[tuple[str, str], float]:
    return {(name, labels): float(value) for name, labels, value in _SERIES.findall(page)}


def of_gpu(page: str, gpu: int) -> dict[str, float]:
    """Ownership counters of a GPU; those with a label more by its value, too."""
    found = {}
    for (name, labels), value in series(page).items():
        if f'gpu="{gpu}"' in labels and 'workload="slurm/7"' in labels:
            more = re.search(r'(?:length|unit|reason|le)="([^"]*)"', labels)
            found[f"{name} {more[1]}" if more else name] = value
    return found


class StalledError(Exception):
    """The machine stood still for so long that NVML's samples were missed, as no real NVML lets it."""


@dataclass(frozen=True)
class Measured:
    """An exporter's page after a while of the job; Unix times of the node's beginning, of the job's, and of those of
    the phases on each GPU.
    """

    settings: NodeSettings
    page: str
    begin: float
    start: float
    phases: list[list[float]]


@pytest.mark.parametrize(("scale", "pause"), [(6.0, 0.1), (16.0, 1 / 16), (50.0, 0.04)])
def test_a_node_steps_once_a_second_of_the_scenario_as_far_as_that_is_not_too_rare_or_often(
    tmp_path: Path, nvml_libraries: Libraries, scale: float, pause: float
) -> None:
    real = DoubleNode("gpu01", 2, tmp_path, nvml_libraries, NodeSettings(time_scale=scale))
    assert real.node.driver._pause == pytest.approx(pause)


def measured(directory: Path, libraries: Libraries, scale: float) -> Measured:
    steps: list[int] = []
    settings = NodeSettings(time_scale=scale, interval=10.0, read_interval=5.0)
    with DoubleNode("gpu01", 2, directory, libraries, settings) as real:
        gpus = real.node.driver.gpus
        wait_for(lambda: "\ngpu_visible{" in real.exporter.metrics(), "the exporter has read NVML", within=120)
        real.node.driver.on_step(steps.append)
        now = time.time()
        start, change, _ = (act for _, act in real.actions(JOB, COURSE, Clock(now, scale)))
        start()
        time.sleep(30 / scale)
        change()
        time.sleep(120 / scale)
        page = real.exporter.metrics()
        phases = [[run.start_us / 1e6 for run in gpu.timeline.runs] for gpu in gpus]
        begin = gpus[0]._start_us / 1e6
    if max(after - before for before, after in pairwise(steps)) > 0.5e6:
        raise StalledError
    return Measured(settings, page, begin, now, phases)


@pytest.mark.timeout(900)
def test_the_crowd_counts_what_an_exporter_counts_on_the_double(tmp_path: Path, nvml_libraries: Libraries) -> None:
    tried: list[AssertionError] = []
    for turn, scale in enumerate(SCALES):
        try:
            agree(measured(tmp_path / f"real{turn}", nvml_libraries, scale), tmp_path / f"crowd{turn}", scale)
        except StalledError:
            continue
        except AssertionError as difference:
            tried.append(difference)
        else:
            return
    if tried:
        raise tried[-1]
    lacking("a machine that does not stand still")


def agree(real: Measured, directory: Path, scale: float) -> None:
    """That a node of the crowd shows the same."""
    clock = Clock(real.start, scale)
    sample, read = (seconds / scale for seconds in (real.settings.sample_period, real.settings.read_interval))
    for gpu in (0, 1):
        theirs = of_gpu(real.page, gpu)
        # The same job with the phases when they really began.
        waiting = Phase(0.0, (Load(IDLE), Load(IDLE)), (Use(),))
        begun = (replace(phase, at=clock.scenario(at)) for phase, at in zip(COURSE, real.phases[gpu], strict=True))
        crowd = CrowdNode("gpu01", 2, directory / str(gpu), real.settings, real.begin)
        crowd.add(JOB, (waiting, *begun), clock)
        # Until the last sample that the exporter counted.
        until = real.start + theirs["workload_gpu_observed_seconds_total"] + sample / 2
        for now in np.arange(real.begin + read, until, read):
            crowd.read(float(now))
        crowd.read(until)
        compare(theirs, of_gpu(crowd.page(), gpu), sample=sample, read=read)
    compare_the_rest(series(real.page), series(crowd.page()))


def compare(theirs: dict[str, float], ours: dict[str, float], *, sample: float, read: float) -> None:
    """Of one GPU and the job on it."""
    assert set(theirs) == set(ours)
    buckets = [name for name in theirs if name.startswith("workload_gpu_utilization_samples_bucket")]
    assert len(buckets) == 9
    gaps = [f"workload_gpu_idle_gap_seconds_total {length}" for length in GAP_LENGTHS]
    for name in ("workload_gpu_observed_seconds_total", "workload_gpu_busy_seconds_total"):
        assert ours[name] == pytest.approx(theirs[name], abs=2 * sample), name
    # A sample that is on a bound may fall to either side: the double cuts time at whole microseconds.
    for name in (*gaps, *buckets):
        assert ours[name] == pytest.approx(theirs[name], abs=5 * sample), name
    # These go up to the reading, and what was sampled ends somewhat before it.
    since = read + theirs["workload_gpu_allocated_seconds_total"] - theirs["workload_gpu_observed_seconds_total"]
    for name in ("workload_gpu_allocated_seconds_total", "workload_gpu_active_seconds_total sm"):
        assert ours[name] == pytest.approx(theirs[name], abs=since), name
    name = "workload_gpu_energy_joules_total"
    assert ours[name] == pytest.approx(theirs[name], abs=700 * since)
    for name in ("workload_gpu_memory_used_bytes", "workload_gpu_processes"):
        assert ours[name] == theirs[name] > 0
    name = "gpu_allocation_start_timestamp_seconds"
    assert ours[name] == pytest.approx(theirs[name], abs=0.1)


def compare_the_rest(theirs: dict[tuple[str, str], float], ours: dict[tuple[str, str], float]) -> None:
    """Of the node and its devices; and what the job used of the CPUs."""
    # Means of GPM, and what needs them, are shown after a reading that was not too soon after the one before.
    lately = re.compile(
        r"gpu_\w+_(active_ratio|occupancy_ratio|bytes_per_second)|gpu_pcie_bytes_total|dutycycle_exporter_\w+"
    )
    both = {key for key in {*theirs, *ours} if not lately.fullmatch(key[0])}
    assert {key for key in both if (key in theirs) != (key in ours)} == set()
    for name, most in (("workload_cpu_seconds_total", 6.0), ("workload_pressure_seconds_total", 1.0)):
        keys = [key for key in theirs if key[0] == name]
        assert keys
        for key in keys:
            # Files of the cgroup are written now and then.
            assert ours[key] == pytest.approx(theirs[key], abs=most), key
