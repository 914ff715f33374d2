"""MIG instances, the units of a GPU, throttling and processes that ended: whose account they go to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutycycle_exporter.accounting import Accounts
from dutycycle_exporter.departed import MOST, SHOWN
from dutycycle_exporter.model import (
    Activity,
    Allocation,
    FinishedProcess,
    GpuReading,
    Ownership,
    Process,
    ProcessOwner,
    Snapshot,
    Span,
    Workload,
)
from dutycycle_exporter.views import Person

T = 1_750_000_000.0
GPU = GpuReading("GPU-0", 0, "H200")
SMALL = replace(GPU, mig="MIG-1", mig_profile="1g.18gb", slices=1 / 7)
LARGE = replace(GPU, mig="MIG-2", mig_profile="3g.71gb", slices=3 / 7)
A, B = (Workload(f"slurm/{number}", "slurm") for number in (1, 2))


def held(device, *workloads, **known):
    return Ownership(tuple(Allocation(device.key, workload, T) for workload in workloads), **known)


class Run:
    """Accounts, told what a GPU's devices say."""

    def __init__(self, time_scale=1.0, hold=0.0):
        self.accounts = Accounts(hold=hold, time_scale=time_scale)
        self.view = None

    def at(self, seconds, *gpus, ownership, step=0.0, **fields):
        """`step`: by how much the clock has been set since the beginning."""
        self.view = self.accounts.update(Snapshot(T + seconds + step, gpus, elapsed=T + seconds, **fields), ownership)
        return self

    def owned(self, workload):
        [found] = [owned for owned in self.view.owned if owned.workload == workload]
        return found


def together(*ownerships):
    return Ownership(tuple(allocation for one in ownerships for allocation in one.allocations))


# MIG


def test_an_instance_counts_as_its_share_of_the_gpus_compute_slices():
    ownership = together(held(SMALL, A), held(LARGE, B))
    run = Run().at(0, GPU, SMALL, LARGE, ownership=ownership)
    spans = (Span(T, T + 70, 0.5),)
    run.at(70, GPU, replace(SMALL, spans=spans), replace(LARGE, spans=spans), ownership=ownership)
    small, large = run.owned(A), run.owned(B)
    assert (small.mig, small.gpu_uuid, large.mig) == ("MIG-1", "GPU-0", "MIG-2")
    assert (small.share, large.share) == (1 / 7, 3 / 7)
    assert (small.allocated, small.observed, small.busy) == pytest.approx((10, 10, 5))
    assert (large.allocated, large.observed, large.busy) == pytest.approx((30, 30, 15))
    whole, *instances = run.view.devices
    assert (whole.busy, whole.observed) == (None, None), "utilization of a GPU in MIG mode is not known"
    assert [device.busy for device in instances] == [35, 35], "an instance's own time is not a part of anything"


def test_two_workloads_on_an_instance_have_half_of_its_share_each():
    ownership = held(LARGE, A, B)
    run = Run().at(0, LARGE, ownership=ownership).at(70, LARGE, ownership=ownership)
    assert run.owned(A).share == pytest.approx(3 / 14)
    assert run.owned(A).allocated + run.owned(B).allocated == pytest.approx(30)


def test_an_instance_that_was_taken_apart_is_forgotten_once_its_workloads_are():
    run = Run().at(0, GPU, SMALL, ownership=held(SMALL, A)).at(5, GPU, SMALL, ownership=held(SMALL, A))
    run.at(10, GPU, ownership=Ownership())
    assert [owned.share for owned in run.view.owned] == [None]
    run.at(15, GPU, ownership=Ownership()).at(20, GPU, ownership=Ownership())
    assert run.view.owned == ()
    assert list(run.accounts._devices) == ["GPU-0", "MIG-1"]
    run.at(126, GPU, ownership=Ownership())
    assert list(run.accounts._devices) == ["GPU-0"]


def test_an_instance_that_was_not_read_for_a_moment_goes_on_counting():
    """Also one that nobody holds, and also while there is no snapshot at all."""
    run = Run().at(0, GPU, SMALL, ownership=Ownership())
    run.at(10, GPU, replace(SMALL, spans=(Span(T, T + 10, 0.5),)), ownership=Ownership())
    run.at(15, GPU, ownership=Ownership()).at(40, ownership=Ownership())
    _, instance = run.at(120, GPU, SMALL, ownership=Ownership()).view.devices
    assert (instance.busy, instance.observed, instance.last_busy) == (5, 10, T + 10)


def test_a_workload_whose_instance_is_not_shown_any_more_stays_allocated():
    run = Run().at(0, GPU, SMALL, ownership=held(SMALL, A)).at(7, GPU, ownership=held(SMALL, A))
    assert run.owned(A).allocated == pytest.approx(1)


# Units


def active(start, end, **units):
    return Activity(T + start, T + end, tuple(units.items()))


def test_time_in_which_units_worked_goes_to_those_who_held_the_gpu():
    run = Run().at(0, GPU, ownership=held(GPU, A))
    run.at(10, replace(GPU, activity=active(0, 10, sm=0.5, tensor=0.25, dram=0.1)), ownership=held(GPU, A))
    assert dict(run.owned(A).active) == pytest.approx({"sm": 5, "tensor": 2.5, "dram": 1})


def test_units_that_are_not_times_are_not_integrated():
    """Occupancy is a level; parts of the tensor cores' work are in the whole of it."""
    run = Run().at(0, GPU, ownership=held(GPU, A))
    reading = replace(GPU, activity=active(0, 10, graphics=1, sm_occupancy=0.3, tensor_hmma=0.2))
    run.at(10, reading, ownership=held(GPU, A))
    assert run.owned(A).active == ()


def test_on_a_shared_gpu_units_are_split_as_the_work_is():
    ownership = held(GPU, A, B, pids={1: A.id, 2: B.id})
    processes = (Process(1, 0, 0.6), Process(2, 0, 0.2))
    run = Run().at(0, GPU, ownership=ownership)
    run.at(10, replace(GPU, processes=processes, activity=active(0, 10, sm=0.8)), ownership=ownership)
    assert dict(run.owned(A).active) == pytest.approx({"sm": 6})
    assert dict(run.owned(B).active) == pytest.approx({"sm": 2})


def test_activity_that_a_new_child_tells_again_is_counted_once():
    run = Run().at(0, GPU, ownership=held(GPU, A))
    for at in (10, 11):
        run.at(at, replace(GPU, activity=active(0, at, sm=1.0)), ownership=held(GPU, A))
    assert dict(run.owned(A).active) == pytest.approx({"sm": 11})


def test_an_instances_units_count_by_its_slices():
    run = Run().at(0, SMALL, ownership=held(SMALL, A))
    run.at(70, replace(SMALL, activity=active(0, 70, sm=0.5)), ownership=held(SMALL, A))
    assert dict(run.owned(A).active) == pytest.approx({"sm": 5})


def test_a_counter_that_the_device_tells_late_begins_at_0_for_the_hold_time():
    """Else PromQL's increase() would lose what a series holds when it is first seen."""
    whose = held(GPU, A)
    run = Run(hold=30).at(0, GPU, ownership=whose)
    assert (run.owned(A).energy, run.owned(A).active) == (None, ())

    def told(seconds):
        reading = replace(GPU, energy=100.0 * seconds, activity=active(seconds - 10, seconds, sm=0.5))
        owned = run.at(seconds, reading, ownership=whose).owned(A)
        return owned.energy, dict(owned.active)

    assert [told(seconds) for seconds in (60, 70, 80)] == [(0, {"sm": 0})] * 3
    assert told(90) == (3000, {"sm": 20})


def test_a_counter_that_was_told_late_is_shown_as_long_as_others_after_the_end():
    run = Run(hold=30).at(0, GPU, ownership=held(GPU, A))
    run.at(100, replace(GPU, energy=0.0), ownership=held(GPU, A))
    run.at(105, replace(GPU, energy=500.0), ownership=held(GPU, A))
    shown = []
    for seconds in range(110, 180, 5):
        run.at(seconds, replace(GPU, energy=500.0), ownership=Ownership())
        shown += [seconds for owned in run.view.owned if owned.energy == 500]
    assert shown == list(range(130, 165, 5))


def test_the_energy_of_one_who_came_while_a_reading_failed_begins_with_it():
    run = Run(hold=30).at(0, replace(GPU, energy=0.0), ownership=held(GPU, A))
    run.at(5, GPU, ownership=held(GPU, A, B))
    assert run.owned(B).energy == 0


# Throttling


@pytest.mark.parametrize(
    ("readings", "seconds"),
    [
        ([100.0, 104.0], 4.0),
        ([100.0, 100.0], 0.0),
        ([100.0, 3.0, 5.0], 2.0),  # the driver was loaded anew
        ([100.0, 250.0], 10.0),  # never more than the time that passed
    ],
)
def test_throttling_is_the_counters_increase(readings, seconds):
    run = Run()
    for turn, value in enumerate(readings):
        run.at(10 * turn, replace(GPU, throttle=(("sw_thermal", value),)), ownership=held(GPU, A))
    assert dict(run.owned(A).throttle) == pytest.approx({"sw_thermal": seconds})


def test_throttling_is_shared_as_time_is():
    ownership = held(GPU, A, B)
    run = Run().at(0, replace(GPU, throttle=(("power_cap", 0.0),)), ownership=ownership)
    run.at(10, replace(GPU, throttle=(("power_cap", 6.0),)), ownership=ownership)
    assert dict(run.owned(A).throttle) == dict(run.owned(B).throttle) == pytest.approx({"power_cap": 3})


# Processes that ended


def finished(pid, *, start=0.0, seconds=4.0, **values):
    return FinishedProcess(pid, T + start, seconds, **values)


def departed(run):
    return run.view.devices[0].departed


@pytest.mark.parametrize("running", [{"processes": (Process(50),)}, {"processes": (), "graphics": (Process(50),)}])
def test_a_process_that_ended_keeps_the_names_that_it_had_and_is_shown_for_a_while(running):
    ownership = held(GPU, A, pids={50: A.id}, people={50: ProcessOwner("ada", "python")})
    run = Run().at(0, replace(GPU, **running), ownership=ownership)
    gone = finished(50, utilization=0.4)
    nobody = Ownership(people={1: ProcessOwner()})
    run.at(5, replace(GPU, processes=(), finished=(finished(51), gone)), ownership=nobody)
    expected = ((finished(51), Person()), (gone, Person("ada", A.id, "python")))
    assert departed(run) == expected
    run.at(SHOWN, replace(GPU, processes=()), ownership=nobody)
    assert departed(run) == expected
    run.at(5 + SHOWN, replace(GPU, processes=()), ownership=nobody)
    assert departed(run) == ()


def test_of_many_processes_that_ended_the_last_are_shown():
    run = Run().at(0, GPU, ownership=Ownership())
    many = tuple(finished(pid, seconds=pid / 100) for pid in range(1, MOST + 11))
    run.at(5, replace(GPU, finished=many), ownership=Ownership())
    assert [process.pid for process, _ in departed(run)] == list(range(11, MOST + 11))
    run.at(10, replace(GPU, finished=many[:20]), ownership=Ownership())
    assert [process.pid for process, _ in departed(run)] == list(range(11, MOST + 11)), "what is older comes too late"


def test_a_process_that_a_replaced_child_tells_again_is_shown_once_and_not_for_longer():
    """The child remembers whom it told, and another one tells everything that NVML remembers."""
    run = Run().at(0, GPU, ownership=Ownership())
    for second in (5, 10, SHOWN):
        run.at(second, replace(GPU, finished=(finished(50),)), ownership=Ownership())
        assert departed(run) == ((finished(50), Person()),)
    for second in (SHOWN + 5, SHOWN + 10):
        run.at(second, replace(GPU, finished=(finished(50),)), ownership=Ownership())
        assert departed(run) == ()


def test_what_ended_before_the_device_was_seen_is_not_news():
    past = (finished(50, start=-10), finished(51, start=-1e6, seconds=1.0))
    run = Run().at(0, replace(GPU, finished=past), ownership=Ownership())
    run.at(5, replace(GPU, finished=(*past, finished(52, start=-1e6, seconds=1e6 + 3))), ownership=Ownership())
    assert [process.pid for process, _ in departed(run)] == [52]


def test_of_two_processes_that_had_the_same_pid_and_names_the_newest_is_shown():
    """Else there would be two series with the same labels, and Prometheus would refuse the whole page."""
    run = Run().at(0, GPU, ownership=Ownership())
    first, second = finished(50, seconds=1.0), finished(50, start=2.0, seconds=1.0)
    run.at(5, replace(GPU, finished=(first, finished(51), second)), ownership=Ownership())
    assert departed(run) == ((second, Person()), (finished(51), Person()))


@pytest.mark.parametrize("step", [-3600, 3600])
def test_after_the_clock_was_set_processes_that_end_are_shown_and_for_as_long_as_ever(step):
    run = Run().at(0, GPU, ownership=Ownership())
    run.at(5, replace(GPU, finished=(finished(49, start=0),)), ownership=Ownership())
    run.at(10, replace(GPU, finished=(finished(50, start=6 + step),)), ownership=Ownership(), step=step)
    assert sorted(process.pid for process, _ in departed(run)) == [49, 50]
    run.at(SHOWN + 7, GPU, ownership=Ownership(), step=step)
    assert [process.pid for process, _ in departed(run)] == [50]
