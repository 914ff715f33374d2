"""Processes that ended, from accounting mode: each is told once, with its life's means and its peak memory."""

from __future__ import annotations

import pynvml
import pytest

from dutycycle_exporter.collected import DEFAULT
from tests.fakes.nvml import GpuProcess, Level, Load

GIB = 2**30
COLLECT = DEFAULT | {"accounting"}


def accounted(make_rack):
    rack = make_rack(collect=COLLECT)
    rack.driver.accounting(0, True)
    return rack.turn()


def life(rack, *pids, seconds=10.0, level=0.6):
    """Processes that run for a while and end; no turn meanwhile."""
    load = Load(Level(level), [GpuProcess(pid, 3 * GIB) for pid in pids], memory_activity=0.5)
    job = rack.driver.run(f"life-{pids[0]}", {0: load})
    rack.clock.advance(seconds)
    job.stop()


def test_a_process_is_told_once_when_it_has_ended(make_rack):
    rack = accounted(make_rack)
    start = rack.clock.now
    job = rack.driver.run("train", {0: Load(Level(0.6), [GpuProcess(100, 3 * GIB)], memory_activity=0.5)})
    assert rack.turn(2).gpu.finished == ()
    job.stop()
    [process] = rack.turn().gpu.finished
    assert (process.pid, process.start, process.seconds) == (100, pytest.approx(start), pytest.approx(10))
    assert (process.utilization, process.memory_activity, process.max_memory) == (0.6, 0.3, 3 * GIB)
    assert rack.turn(3).gpu.finished == ()


def test_those_that_ended_between_two_turns_are_told_too_newest_last(make_rack):
    rack = accounted(make_rack)
    life(rack, 100)
    life(rack, 101)
    assert [process.pid for process in rack.turn().gpu.finished] == [100, 101]


def test_a_pid_that_is_used_again_is_another_process(make_rack):
    rack = accounted(make_rack)
    life(rack, 100)
    rack.turn()
    job = rack.driver.run("again", {0: Load(Level(0.2), [GpuProcess(100)])})
    assert rack.turn(2).gpu.finished == ()
    job.stop()
    [process] = rack.turn().gpu.finished
    assert (process.pid, process.utilization) == (100, 0.2)


def test_of_very_many_the_newest_are_told(make_rack):
    rack = accounted(make_rack)
    for first in range(100, 200, 10):
        life(rack, *range(first, first + 10), seconds=1)
    finished = rack.turn().gpu.finished
    assert len(finished) == 64
    assert {process.pid for process in finished} >= set(range(140, 200))
    assert rack.turn().gpu.finished == ()


def stats_calls(rack):
    return rack.driver.state.calls("nvmlDeviceGetAccountingStats")


def test_a_full_buffer_is_asked_for_a_part_at_a_time_the_newest_first(make_rack, monkeypatch):
    """NVML's holds thousands, all of which are new to a child that has just begun."""
    rack = accounted(make_rack)
    monkeypatch.setattr(
        pynvml, "nvmlDeviceGetAccountingPids", lambda handle: [*range(10_000, 14_000), *range(100, 140)]
    )
    life(rack, *range(100, 140))
    assert {process.pid for process in rack.turn().gpu.finished} == set(range(100, 140))
    assert stats_calls(rack) == 128
    rack.turn(100)
    assert stats_calls(rack) == 40 + 3 * 4000, "each is asked for until it is given up"


def test_a_process_of_which_nothing_can_be_read_is_given_up(make_rack):
    rack = accounted(make_rack)
    rack.driver.fail("nvmlDeviceGetAccountingStats", pynvml.NVML_ERROR_UNKNOWN)
    life(rack, 100)
    failures = [sum(rack.turn().snapshot.failures.values()) for _ in range(5)]
    assert failures == [1, 1, 1, 0, 0]
    assert stats_calls(rack) == 3
    rack.driver.heal("nvmlDeviceGetAccountingStats")
    life(rack, 101)
    assert [process.pid for process in rack.turn().gpu.finished] == [101]


def test_without_the_mode_nothing_is_asked_and_nothing_is_a_failure(make_rack):
    rack = make_rack(collect=COLLECT)
    life(rack, 100)
    assert rack.turn(2).gpu.finished == ()
    assert rack.driver.state.calls("nvmlDeviceGetAccountingPids") == 0
    assert rack.snapshot.failures == {}


def test_switched_off_the_mode_is_not_asked_for(make_rack):
    rack = make_rack()
    rack.driver.accounting(0, True)
    life(rack, 100)
    assert rack.turn().gpu.finished == ()
    assert rack.driver.state.calls("nvmlDeviceGetAccountingMode") == 0


@pytest.mark.parametrize(
    ("call", "code", "failures"),
    [
        ("nvmlDeviceGetAccountingMode", pynvml.NVML_ERROR_UNKNOWN, 1),
        ("nvmlDeviceGetAccountingPids", pynvml.NVML_ERROR_NO_PERMISSION, 1),
        ("nvmlDeviceGetAccountingStats", pynvml.NVML_ERROR_TIMEOUT, 1),
        ("nvmlDeviceGetAccountingStats", pynvml.NVML_ERROR_NOT_FOUND, 0),
    ],
)
def test_what_cannot_be_read_now_is_told_when_it_can(make_rack, call, code, failures):
    rack = accounted(make_rack)
    rack.driver.fail(call, code)
    life(rack, 100)
    assert rack.turn().gpu.finished == ()
    assert sum(rack.snapshot.failures.values()) == failures
    rack.driver.heal(call)
    assert [process.pid for process in rack.turn().gpu.finished] == [100]


def test_a_process_whose_memory_pynvml_cannot_tell_does_not_end_the_reading(make_rack, monkeypatch):
    """It writes None into a number, which ctypes refuses."""
    rack = accounted(make_rack)

    def untold(handle, pid):
        raise TypeError

    untold.__name__ = "nvmlDeviceGetAccountingStats"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetAccountingStats", untold)
    life(rack, 100)
    assert rack.turn().gpu.finished == ()
    assert rack.snapshot.failures == {("nvmlDeviceGetAccountingStats", "not_available"): 1}
