"""The reader on the NVML of this machine, whoever made it: nothing of what it answers may surprise us."""

from __future__ import annotations

import time
from dataclasses import fields
from itertools import pairwise

import pynvml
import pytest

from dutycycle_exporter.collected import COLLECTED
from dutycycle_exporter.elapsed import elapsed
from dutycycle_exporter.model import GpuReading
from dutycycle_exporter.nvml import NvmlReader

pytestmark = pytest.mark.gpu


@pytest.fixture
def snapshots():
    """Three of them, far enough apart for GPM."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        pytest.skip(f"this machine has no NVML: {error}")
    pynvml.nvmlShutdown()
    reader = NvmlReader(interval=0.5, collect=frozenset(COLLECTED))
    found = []
    for _ in range(3):
        found.append(reader.read(time.time(), elapsed()))
        time.sleep(0.5)
    reader.close()
    return found


def test_every_gpu_that_is_counted_is_read_and_says_who_it_is(snapshots):
    for snapshot in snapshots:
        whole = [reading for reading in snapshot.gpus if not reading.mig]
        assert len(whole) == snapshot.visible
        assert all(reading.uuid.startswith("GPU-") and reading.model and reading.pci_bus_id for reading in whole)


def test_nothing_that_a_gpu_has_fails(snapshots):
    assert [snapshot.failures for snapshot in snapshots[1:]] == [{}, {}]


def test_what_is_known_is_plausible(snapshots):
    for reading in snapshots[-1].gpus:
        for name in ("utilization", "memory_activity", "fan"):
            assert getattr(reading, name) is None or 0 <= getattr(reading, name) <= 1
        assert reading.memory_used is None or 0 <= reading.memory_used <= reading.memory_total
        assert reading.power is None or reading.power > 0
        assert all(0 < degrees < 130 for _, degrees in reading.temperatures)
        assert all(value >= 0 for _, value in reading.throttle)
        assert reading.activity is None or all(0 <= value <= 1 for _, value in reading.activity.units)


def test_time_is_measured_once_and_by_the_clock_that_nobody_sets(snapshots):
    """Whichever clock this driver stamps its samples with, and in whatever order it has them in its buffer."""
    for key in {reading.key for reading in snapshots[-1].gpus if not reading.mig and reading.mig_mode != "enabled"}:
        of_gpu = [(snapshot.at, gpu) for snapshot in snapshots for gpu in snapshot.gpus if gpu.key == key]
        spans = [span for _, gpu in of_gpu for span in gpu.spans]
        assert all(a.end <= b.start for a, b in pairwise(spans))
        assert all(at - 120 < span.start < span.end < at + 1 for at, gpu in of_gpu for span in gpu.spans)
    assert [snapshot.dropped for snapshot in snapshots] == [{}, {}, {}]


def test_counters_do_not_fall(snapshots):
    counters = {"energy", "pcie_replays"}
    labelled = {"throttle", "ecc_errors", "pcie_bytes", "nvlink_bytes", "cycles"}
    assert counters | labelled <= {field.name for field in fields(GpuReading)}
    first, last = ({reading.key: reading for reading in snapshot.gpus} for snapshot in (snapshots[1], snapshots[-1]))
    for key in first.keys() & last.keys():
        for name in counters:
            before, after = getattr(first[key], name), getattr(last[key], name)
            assert before is None or before <= after
        for name in labelled:
            after = dict(getattr(last[key], name))
            assert all(value <= after[label] for label, value in getattr(first[key], name))
