"""A real exporter on a node whose clock is set, back and forth."""

from __future__ import annotations

import time

import pytest

from benchmarks.chaos.clocks import SteppedClock, build
from tests.exporter.daemon import Daemon, eventually
from tests.exporter.published import samples
from tests.fakes.nvml import Level, Load
from tests.fakes.slurm_prolog import PrologWriter

NAMES = ("workload_gpu_allocated_seconds_total", "workload_gpu_observed_seconds_total", "gpu_observed_seconds_total")


def read(daemon):
    """Counters, and about when they were read: at once and soon after a snapshot, or some tell of another time."""

    def at_once():
        before = time.monotonic()
        text = daemon.get("/metrics")[1]
        took = time.monotonic() - before
        ages = [one.value for one in samples(text, "dutycycle_exporter_collector_age_seconds", collector="nvml")]
        if took > 0.5 or not ages or ages[0] > 0.5:
            return None
        return [sum(one.value for one in samples(text, name)) for name in NAMES], before + took / 2

    return eventually(at_once)


def test_counters_count_the_time_that_passes_while_the_clock_is_set_to_and_fro(nvml_driver, tmp_path):
    driver = nvml_driver()
    uuid = driver.add_gpu().uuid
    driver.run("work", {0: Load(Level(0.7))})
    driver.start()
    PrologWriter(tmp_path / "prolog").start(7, [uuid])
    flags = ("--sample-interval=250ms", "--series-hold=250ms", "--node-name=n1")
    with (
        SteppedClock(tmp_path / "clock", build(tmp_path)) as clock,
        Daemon(tmp_path, {**driver.environment, **clock.environment}, *flags) as daemon,
    ):
        eventually(lambda: daemon.total(NAMES[1]) > 2, "the workload is measured")
        first, began = read(daemon)
        shown = [first]
        for step in (300, -600, 299.5, 7200):
            clock.step(step)
            threshold = daemon.total(NAMES[0]) + 1.5
            eventually(lambda threshold=threshold: daemon.total(NAMES[0]) > threshold, "it counts on")
            eventually(lambda: daemon.values("gpu_utilization_ratio") == [0.7], "readings do not become old")
            shown.append(read(daemon)[0])
        last, ended = read(daemon)
    passed = ended - began
    assert [b - a for a, b in zip(first, last, strict=True)] == pytest.approx([passed] * 3, abs=2)
    for name, values in zip(NAMES, zip(*shown, strict=True), strict=True):
        assert list(values) == sorted(values), name
