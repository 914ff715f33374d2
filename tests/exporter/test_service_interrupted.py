"""What a scrape shows while NVML is gone, a snapshot waits or a clock is set, and whose the time is afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutycycle_exporter.model import (
    Allocation,
    GpuReading,
    Ownership,
    Snapshot,
    Span,
)
from tests.exporter.service_page import DEVICE, OWNER, WORKLOAD, Page
from tests.fakes.pci import PciTree


@pytest.mark.parametrize("step", [-3600, 3600])
def test_a_clock_that_was_set_makes_readings_neither_old_nor_new(page, step):
    page.elapsed = 1000.0
    page.snapshot()
    page.clock.advance(step)
    assert page.names() >= DEVICE
    page.elapsed += 16
    assert not page.names() & DEVICE


@pytest.mark.parametrize("step", [-3600, 3600])
def test_while_nvml_is_gone_a_clock_that_was_set_makes_no_allocation_longer_or_shorter(page, step):
    page.elapsed = 1000.0
    page.snapshot()
    page.clock.advance(step)
    page.elapsed += 25
    page.service.on_loss("hang", "silent for 25 s")
    page.clock.advance(25)
    page.elapsed += 25
    page.service.on_loss("hang", "silent for 25 s")
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == 50


def test_while_nvml_is_gone_an_allocation_goes_on_and_is_not_measured(page):
    page.snapshot()
    page.lose(100)
    assert page.value("gpu_allocation", OWNER) == 1
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == 100
    assert page.value("workload_gpu_observed_seconds_total", OWNER) == 0
    page.snapshot()
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == 100


def test_while_nvml_is_gone_a_job_can_end(page):
    page.snapshot()
    page.ownership = Ownership()
    page.lose(50)
    assert "gpu_allocation" not in page.names()
    assert "workload_gpu_allocated_seconds_total" not in page.names()


def test_a_snapshot_that_was_held_up_in_a_call_does_not_count_the_time_of_silence_twice(page):
    page.snapshot()
    begun = page.clock.advance(5)
    page.clock.advance(15)
    page.service.on_silence()
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == 20
    page.clock.advance(2)
    page.snapshot(t=begun)
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == 22
    page.clock.advance(5)
    page.snapshot()
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == 27


@pytest.mark.parametrize(("stood", "known"), [(60, True), (900, False)], ids=["a minute", "beyond what a start may be"])
def test_a_snapshot_that_waited_while_the_exporter_was_stopped_is_not_of_a_job_that_began_since(page, stood, known):
    """By far too late a start is one that nobody knows."""
    page.snapshot()
    stopped = page.clock.now
    page.clock.advance(stood)
    second = replace(WORKLOAD, id="slurm/2", job_id="2")
    began = stopped + stood - 10
    page.ownership = Ownership((Allocation("GPU-0", second, start=began if known else None),))
    for waited in range(5, 45, 5):
        page.snapshot(t=stopped + waited)
    page.ownership = Ownership((Allocation("GPU-0", second, start=began),))
    page.snapshot()
    labels = {**OWNER, "workload": "slurm/2", "job_id": "2"}
    assert page.value("workload_gpu_allocated_seconds_total", labels) == pytest.approx(10)


def test_a_job_that_began_again_while_snapshots_waited_holds_the_gpu_from_then_on(page):
    """A requeued one keeps its number."""
    page.ownership = Ownership((Allocation("GPU-0", WORKLOAD, start=page.clock.now - 5),))
    page.snapshot()
    stopped = page.clock.now
    page.clock.advance(60)
    page.ownership = Ownership((Allocation("GPU-0", WORKLOAD, start=stopped + 50),))
    for waited in range(5, 45, 5):
        page.snapshot(t=stopped + waited)
        assert page.service.state().view.ownership.allocations == ()
    page.snapshot()
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == pytest.approx(10)


@pytest.mark.parametrize(("start", "waited"), [(None, 60), (100, 0), (100, 60)], ids=["unknown", "to come", "so late"])
def test_who_does_not_say_truly_when_it_began_held_the_gpu_when_a_snapshot_that_waited_was_read(page, start, waited):
    """Its start is not known, or is another clock's that is ahead."""
    page.ownership = Ownership()
    page.snapshot()
    read = page.clock.now + 5
    page.clock.advance(5 + waited)
    page.ownership = Ownership((Allocation("GPU-0", WORKLOAD, start and page.clock.now + start),))
    page.snapshot(t=read)
    assert page.service.state().view.ownership == page.ownership


@pytest.mark.parametrize("step", [-3600.0, -20.0, 20.0, 3600.0])
def test_a_clock_that_is_set_while_snapshots_wait_takes_a_gpu_from_nobody(page, step):
    """Neither from who held it already, nor from who had just begun, whose start is of the time before."""
    page.elapsed = 100.0
    start = page.clock.now + 1
    page.snapshot()
    page.ownership = Ownership((Allocation("GPU-0", WORKLOAD, start=start),))
    for _ in range(2):
        page.clock.advance(5)
        page.elapsed += 5
        page.snapshot()
    read, at = page.clock.now, page.elapsed
    page.clock.advance(20 + step)
    for waited in range(5, 25, 5):
        page.elapsed = at + waited
        gpu = GpuReading("GPU-0", 0, "H100")
        snapshot = Snapshot(read + waited, (gpu,), visible=1, elapsed=page.elapsed)
        page.elapsed = at + 20
        page.service.on_snapshot(snapshot)
        assert page.service.state().view.ownership == page.ownership
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == pytest.approx(30)


def test_who_began_after_a_clock_was_set_back_did_not_hold_the_gpu_when_a_snapshot_was_read_before_that(page):
    page.elapsed = 100.0
    page.snapshot()
    read = page.clock.now
    page.clock.advance(20 - 3600)
    second = replace(WORKLOAD, id="slurm/2", job_id="2")
    page.ownership = Ownership((Allocation("GPU-0", second, start=page.clock.now - 5),))
    page.elapsed = 120.0
    page.service.on_snapshot(Snapshot(read + 5, (GpuReading("GPU-0", 0, "H100"),), visible=1, elapsed=105.0))
    assert page.service.state().view.ownership.allocations == ()
    page.snapshot()
    assert page.value("workload_gpu_allocated_seconds_total", {**OWNER, "workload": "slurm/2", "job_id": "2"}) == 5


def test_one_lost_child_changes_nothing_that_is_shown(page):
    page.snapshot()
    before = page.names()
    page.clock.advance(1)
    page.service.on_loss("exit", "killed by signal 9")
    assert page.names() == before


def test_without_nvml_jobs_use_their_hosts_and_gpus_are_expected_and_it_is_not_ready(page, tmp_path):
    PciTree(tmp_path / "sys").add("0000:1b:00.0")
    page.service._sysfs = tmp_path / "sys"
    page.service.on_loss("driver_not_loaded", "no driver")
    assert page.value("gpu_expected", {"node": "n1"}) == 1
    assert "gpu_visible" not in page.names()
    assert "workload_cpu_seconds_total" in page.names()
    assert page.service.unready() == "no driver"


def test_a_snapshot_that_was_held_up_in_a_call_does_not_count_its_time_twice(tmp_path):
    """While the call hung, its time was counted as allocated; the late snapshot tells of now, not of then."""
    page = Page(tmp_path)
    page.snapshot()
    began = page.clock.now
    held_up = began + 5
    for _ in range(12):
        page.clock.advance(5)
        page.service.on_silence()
    gpu = GpuReading("GPU-0", 0, "H100", spans=(Span(held_up - 1, held_up, 0.5),), utilization=0.5)
    page.clock.advance(1)
    page.service.on_snapshot(Snapshot(held_up, (gpu,), visible=1))
    allocated = page.registry.get_sample_value("workload_gpu_allocated_seconds_total", OWNER)
    assert allocated == pytest.approx(page.clock.now - began)
    page.clock.advance(5)
    page.snapshot()
    allocated = page.registry.get_sample_value("workload_gpu_allocated_seconds_total", OWNER)
    assert allocated == pytest.approx(page.clock.now - began)
