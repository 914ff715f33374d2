"""Spans are credited to those who held the GPU during them: nothing lost, nothing doubled, nothing invented."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.accounting import Accounts
from dutycycle_exporter.model import Allocation, GpuReading, Ownership, Process, Snapshot, Span, Workload

T = 1_750_000_000.0
UUID = "GPU-0"
A, B, C = (Workload(id=f"slurm/{number}", scheduler="slurm", job_id=str(number)) for number in (1, 2, 3))
EMPTY = Ownership()


def spans_of(start, end, utilization=0.5, period=0.25):
    count = round((end - start) / period)
    return tuple(Span(start + n * period, start + (n + 1) * period, utilization) for n in range(count))


def reading(spans=(), **values):
    return GpuReading(uuid=UUID, index=0, model="H100", spans=tuple(spans), **values)


def held_by(*workloads, start=None, pids=None):
    return Ownership(tuple(Allocation(UUID, workload, start) for workload in workloads), pids or {})


class Run:
    """Accounts that are told one GPU's snapshots."""

    def __init__(self, *, hold=0.0, time_scale=1.0):
        self.accounts = Accounts(hold=hold, time_scale=time_scale)
        self.view = None

    def at(self, t, ownership=EMPTY, spans=(), *, visible=True, **values):
        gpus = (reading(spans, **values),) if visible else ()
        self.view = self.accounts.update(Snapshot(t=t, gpus=gpus), ownership)
        return self

    @property
    def device(self):
        [device] = self.view.devices
        return device

    def owned(self, workload):
        [owned] = [owned for owned in self.view.owned if owned.workload.id == workload.id]
        return owned

    @property
    def workloads(self):
        return [owned.workload.id for owned in self.view.owned]


def test_busy_is_the_integral_of_utilization_over_observed_time():
    run = Run().at(T).at(T + 5, EMPTY, [Span(T, T + 3, 0.2), Span(T + 3, T + 5, 1.0)])
    assert (run.device.busy, run.device.observed) == pytest.approx((2.6, 5))
    assert run.device.last_busy == T + 5


def test_a_gpu_without_measurement_is_unknown_and_not_idle():
    """As one in MIG mode: NVML has no utilization of it."""
    run = Run().at(T, held_by(A)).at(T + 5, held_by(A)).at(T + 10, held_by(A))
    owned = run.owned(A)
    assert (owned.allocated, owned.observed, owned.busy) == (10, 0, 0)
    assert owned.gaps == (0, 0, 0, 0)
    assert sum(owned.buckets) == 0
    assert (run.device.busy, run.device.observed, run.device.last_busy) == (None, None, None)


def test_a_lost_gpu_stays_allocated_and_unmeasured_and_goes_on_when_it_is_back():
    run = Run().at(T, held_by(A)).at(T + 5, held_by(A), spans_of(T, T + 5))
    run.at(T + 10, held_by(A), visible=False)
    assert run.view.devices == ()
    assert (run.owned(A).allocated, run.owned(A).observed) == (10, 5)
    run.at(T + 15, held_by(A), spans_of(T + 10, T + 15))
    assert (run.owned(A).allocated, run.owned(A).observed) == (15, 10)
    assert run.device.observed == 10


def test_a_replaced_child_tells_the_past_again_and_it_is_counted_once():
    run = Run().at(T, held_by(A)).at(T + 5, held_by(A), spans_of(T, T + 5))
    run.at(T + 10, held_by(A), spans_of(T - 6, T + 10))
    assert run.device.observed == run.owned(A).observed == pytest.approx(10)


@pytest.mark.parametrize("lag", [0.0, 0.1, 2.0])
def test_samples_that_come_late_are_still_their_owners(lag):
    """NVML shows a sample after its time: those of before the previous snapshot belong to who held the GPU then."""
    run, told = Run().at(T, held_by(A)), T
    for poll in range(1, 13):
        end = T + 5 * poll - lag
        run.at(T + 5 * poll, held_by(A), [Span(told, end, 0.0)])
        told = end
    assert run.owned(A).observed == pytest.approx(60 - lag)
    assert run.device.observed == pytest.approx(run.owned(A).observed)
    run.at(T + 65, EMPTY)
    assert run.owned(A).gaps == pytest.approx((0, 0, 60 - lag, 0))


def test_samples_that_come_late_are_credited_to_a_workload_that_has_ended_since():
    run = Run(hold=60).at(T, held_by(A)).at(T + 5, held_by(A), spans_of(T, T + 4))
    run.at(T + 10, held_by(B, start=T + 9), spans_of(T + 4, T + 7)).at(T + 15, held_by(B), spans_of(T + 7, T + 14, 1.0))
    run.at(T + 70, held_by(B))
    assert (run.owned(A).observed, run.owned(B).observed) == (9, 5)
    assert (run.owned(A).busy, run.owned(B).busy) == (5.5, 5)


def test_samples_that_end_while_the_gpu_is_read_are_their_owners():
    """The last GPU of a node is read some time after the snapshot's instant: its newest sample lies after that."""
    run, told = Run().at(T, held_by(A)), T
    for poll in range(1, 13):
        end = T + 5 * poll + 0.3
        run.at(T + 5 * poll, held_by(A), [Span(told, end, 0.5)])
        told = end
    assert run.owned(A).observed == run.device.observed == pytest.approx(60.3)


def test_an_allocation_that_began_between_two_snapshots_gets_what_is_its_own():
    run = Run().at(T).at(T + 5, held_by(A, start=T + 2), spans_of(T, T + 5))
    assert (run.owned(A).allocated, run.owned(A).observed) == pytest.approx((3, 3))


def test_an_allocation_from_before_the_exporter_started_counts_from_then():
    run = Run().at(T, held_by(A, start=T - 3600)).at(T + 5, held_by(A, start=T - 3600), spans_of(T, T + 5))
    assert run.owned(A).allocated == 5
    assert run.owned(A).start == T - 3600


def test_a_gpu_goes_from_one_job_to_the_next_at_the_instant_the_next_one_began():
    run = Run(hold=60).at(T, held_by(A)).at(T + 5, held_by(A), spans_of(T, T + 5))
    run.at(T + 10, held_by(B, start=T + 8), spans_of(T + 5, T + 10, 1.0)).at(T + 70, held_by(B))
    assert run.owned(A).share is None
    assert (run.owned(A).allocated, run.owned(B).allocated) == pytest.approx((8, 62))
    assert (run.owned(A).busy, run.owned(B).busy) == pytest.approx((5.5, 2))


def test_two_workloads_on_a_gpu_have_half_each_and_are_split_by_the_work_of_their_processes():
    pids = {10: A.id, 20: B.id, 21: B.id}
    both = held_by(A, B, pids=pids)
    processes = (Process(10, 1e9, 0.1), Process(20, 2e9, 0.2), Process(21, 3e9, 0.1))
    run = Run().at(T, both, processes=processes).at(T + 8, both, spans_of(T, T + 8, 1.0), processes=processes)
    a, b = run.owned(A), run.owned(B)
    assert a.share == b.share == 0.5
    assert (a.allocated, b.allocated, a.observed, b.observed) == (4, 4, 4, 4)
    assert (a.busy, b.busy) == pytest.approx((2, 6))
    assert (a.processes, b.processes) == (1, 2)
    assert (a.memory, b.memory) == (1e9, 5e9)


def test_three_workloads_have_a_third_each():
    run = Run().at(T, held_by(A, B, C)).at(T + 9, held_by(A, B, C), spans_of(T, T + 9, 1.0))
    for workload in (A, B, C):
        owned = run.owned(workload)
        assert owned.share == pytest.approx(1 / 3)
        assert (owned.allocated, owned.observed, owned.busy) == pytest.approx((3, 3, 3))


def test_while_one_joins_and_another_leaves_each_has_its_share_of_each_moment():
    """Shares of 1/3, 1/3 and 1/2 over the whole interval would be more than the GPU has."""
    run = Run(hold=60).at(T, held_by(A, B, C))
    d = Workload(id="slurm/4", scheduler="slurm")
    run.at(T + 12, held_by(C, d, start=T + 6), spans_of(T, T + 12, 1.0)).at(T + 73, held_by(C, d))
    shown = {owned.workload.id: (owned.observed, owned.busy) for owned in run.view.owned}
    assert shown == {
        A.id: pytest.approx((2, 2)),
        B.id: pytest.approx((2, 2)),
        C.id: pytest.approx((5, 5)),
        d.id: pytest.approx((3, 3)),
    }


@pytest.mark.parametrize(
    ("processes", "pids", "busy"),
    [
        pytest.param((Process(10, 0, 0.4), Process(20, 0, 0.2)), {10: A.id, 20: B.id}, (4, 2), id="by their work"),
        pytest.param((Process(10, 0, 0.4), Process(20, 0, 0.0)), {10: A.id, 20: B.id}, (6, 0), id="one is idle"),
        pytest.param((Process(10, 0, 0.4),), {10: A.id}, (6, 0), id="one has no process"),
        pytest.param((Process(10, 0, None),), {10: A.id}, (6, 0), id="one has no process, and nothing is told"),
        pytest.param((Process(10), Process(11)), {10: A.id, 11: A.id}, (6, 0), id="all are of one"),
        pytest.param((Process(10), Process(30)), {10: A.id}, (3, 3), id="one is nobody's, and nothing is told"),
        pytest.param((Process(30),), {}, (3, 3), id="the only one is nobody's"),
        pytest.param((Process(30),), {30: C.id}, (0, 0), id="the only one is of a workload without the GPU"),
        pytest.param((Process(10, 0, 0.4), Process(20, 0, None)), {10: A.id, 20: B.id}, (3, 3), id="one is unknown"),
        pytest.param((Process(10, 0, 0.4), Process(30, 0, 0.2)), {10: A.id}, (4, 0), id="one is nobody's, and works"),
        pytest.param((Process(10, 0, 0.4), Process(30, 0, 0.2)), {10: A.id, 30: C.id}, (4, 0), id="C works without it"),
        pytest.param((Process(10, 0, 0.0), Process(30, 0, 0.2)), {10: A.id}, (0, 0), id="only nobody's works"),
        pytest.param((Process(30, 0, 0.2), Process(31, 0, 0.2)), {}, (0, 0), id="only nobody's are there"),
        pytest.param((Process(10, 0, 0.4), Process(30, 0, 0.0)), {10: A.id}, (6, 0), id="nobody's, and does nothing"),
        pytest.param((Process(10, 0, 0.0), Process(20, 0, 0.0)), {10: A.id, 20: B.id}, (3, 3), id="none worked"),
        pytest.param((), {}, (3, 3), id="no process"),
        pytest.param(None, {}, (3, 3), id="processes unknown"),
    ],
)
def test_work_on_a_shared_gpu_is_split_by_processes_where_all_is_known_of_them_and_evenly_else(processes, pids, busy):
    both = held_by(A, B, pids=pids)
    run = Run().at(T, both, processes=processes).at(T + 6, both, spans_of(T, T + 6, 1.0), processes=processes)
    assert (run.owned(A).busy, run.owned(B).busy) == pytest.approx(busy)
    assert run.owned(A).observed == run.owned(B).observed == 3


@pytest.mark.parametrize(
    ("processes", "busy"),
    [
        pytest.param((Process(10, 0, 0.6), Process(30, 0, 0.2)), 4.5, id="both work"),
        pytest.param((Process(10, 0, 0.0), Process(30, 0, 0.2)), 0, id="only the other works"),
        pytest.param((Process(10, 0, None), Process(30, 0, None)), 6, id="what each does is not told"),
        pytest.param((Process(30, 0, None),), 6, id="what the only one does is not told"),
        pytest.param((Process(30, 0, 0.2), Process(31, 0, 0.1)), 6, id="the job may be outside its cgroup"),
        pytest.param((Process(40),), 0, id="the only one is of another workload"),
        pytest.param((Process(10, 0, 0.4), Process(40, 0, 0.2)), 4, id="another workload works, too"),
        pytest.param((Process(30, 0, 0.1), Process(40, 0, 0.2)), 2, id="one of another workload, one of nobody"),
        pytest.param((Process(10, 0, 0.0, mps_client=True), Process(30, 0, 0.2)), 6, id="it works through a server"),
    ],
)
def test_what_a_strangers_process_does_on_a_gpu_is_not_the_only_holders_work(processes, busy):
    alone = held_by(A, pids={10: A.id, 40: C.id})
    run = Run().at(T, alone, processes=processes).at(T + 6, alone, spans_of(T, T + 6, 1.0), processes=processes)
    assert (run.owned(A).busy, run.owned(A).observed) == pytest.approx((busy, 6))


def test_the_one_of_two_that_has_no_process_is_idle_and_is_told_so():
    both = held_by(A, B, pids={10: A.id})
    run = Run().at(T, both, processes=(Process(10, 1e9),))
    run.at(T + 4, both, spans_of(T, T + 4, 0.9), processes=(Process(10, 1e9),))
    assert (run.owned(A).busy, run.owned(B).busy) == (pytest.approx(3.6), 0)
    assert (run.owned(A).observed, run.owned(B).observed) == (2, 2)


def test_a_gpu_that_nobody_holds_is_measured_as_any_other():
    """Before its first workload, between two, and with processes that are nobody's."""
    run = Run().at(T, energy=0.0, processes=(Process(30, 1e9),))
    run.at(T + 5, EMPTY, spans_of(T, T + 5, 1.0), energy=500.0, processes=(Process(30, 1e9),))
    run.at(T + 10, held_by(A, start=T + 6), spans_of(T + 5, T + 10, 1.0), energy=1000.0)
    run.at(T + 15, EMPTY, spans_of(T + 10, T + 15, 1.0), energy=1500.0, processes=())
    run.at(T + 20, EMPTY, spans_of(T + 15, T + 20, 1.0), energy=2000.0)
    assert (run.device.busy, run.device.observed, run.device.power) == (20, 20, 100)
    assert run.workloads == []


def test_the_idle_one_of_two_has_zero():
    both = held_by(A, B, pids={10: A.id, 20: B.id})
    processes = (Process(10, 1e9, 0.9), Process(20, 1e9, 0.0))
    run = Run().at(T, both, processes=processes).at(T + 4, both, spans_of(T, T + 4, 1.0), processes=processes)
    assert (run.owned(A).busy, run.owned(B).busy) == (4, 0)


def test_without_utilization_by_process_the_work_is_split_evenly():
    both = held_by(A, B, pids={10: A.id, 20: B.id})
    processes = (Process(10, 1e9), Process(20, 1e9))
    run = Run().at(T, both, processes=processes).at(T + 4, both, spans_of(T, T + 4, 1.0), processes=processes)
    assert (run.owned(A).busy, run.owned(B).busy) == (2, 2)


def test_memory_and_processes_are_unknown_where_nvml_does_not_tell():
    run = Run().at(T, held_by(A, pids={10: A.id}), processes=(Process(10, None),))
    assert (run.owned(A).memory, run.owned(A).processes) == (None, 1)
    run.at(T + 5, held_by(A), processes=None)
    assert (run.owned(A).memory, run.owned(A).processes) == (None, None)
    run.at(T + 10, held_by(A), processes=())
    assert (run.owned(A).memory, run.owned(A).processes) == (0, 0)


def test_while_it_is_not_known_whose_a_process_on_a_gpu_is_that_gpus_workloads_may_have_any_number():
    """A process that could not be read may be the job's: to say that it has none would be to accuse it."""
    known = {10: A.id}
    unresolved = replace(held_by(A, B, pids=known), unresolved=frozenset({20}))
    processes = (Process(10, 1e9), Process(20, 2e9))
    run = Run().at(T, unresolved, processes=processes)
    for workload in (A, B):
        assert (run.owned(workload).memory, run.owned(workload).processes) == (None, None)
    run.at(T + 5, unresolved, processes=(Process(10, 1e9),))
    assert (run.owned(A).processes, run.owned(B).processes) == (1, 0), "it is on another GPU"
    run.at(T + 10, held_by(A, B, pids=known), processes=processes)
    assert [(run.owned(one).memory, run.owned(one).processes) for one in (A, B)] == [(1e9, 1), (0, 0)], "nobody's"


@pytest.mark.parametrize("work", [None, 0.4])
def test_the_work_of_a_process_that_could_not_be_read_is_not_credited_to_the_others(work):
    """It may be of any of them: nobody knows how they share the work."""
    unresolved = replace(held_by(A, B, pids={10: A.id}), unresolved=frozenset({20}))
    processes = (Process(10, 1e9, work), Process(20, 2e9, work))
    run = Run().at(T, unresolved, processes=processes)
    run.at(T + 4, unresolved, spans_of(T, T + 4, 1.0), processes=processes)
    assert (run.owned(A).busy, run.owned(B).busy) == (2, 2)


def test_energy_is_the_counters_difference_and_power_its_mean():
    run = Run().at(T, held_by(A), energy=1000.0, power=70.0).at(T + 5, held_by(A), energy=2500.0, power=70.0)
    assert run.device.power == 300
    assert run.owned(A).energy == 1500
    run.at(T + 10, held_by(A), energy=10.0, power=70.0)
    assert run.device.power == 70, "after a reset of the counter the sensor is what is known"
    assert run.owned(A).energy == 1500


def test_energy_goes_to_those_who_held_the_gpu_for_as_long_as_they_did():
    run = Run(hold=60).at(T, held_by(A), energy=0.0).at(T + 10, held_by(B, start=T + 4), energy=1000.0)
    run.at(T + 20, held_by(B, C, start=T + 15), energy=2000.0)
    run.at(T + 30, EMPTY, energy=3000.0).at(T + 80, EMPTY, energy=4000.0)
    shown = {owned.workload.id: owned.energy for owned in run.view.owned}
    assert shown == {A.id: pytest.approx(400), B.id: pytest.approx(600 + 500 + 250), C.id: pytest.approx(250)}


def test_energy_of_a_lost_gpu_that_came_back_is_its_counters_difference():
    run = Run().at(T, held_by(A), energy=1000.0).at(T + 5, held_by(A), visible=False)
    run.at(T + 10, held_by(A), energy=2000.0)
    assert run.owned(A).energy == 1000
    assert run.device.power == 100


def test_without_an_energy_counter_there_is_no_energy():
    run = Run().at(T, held_by(A), power=70.0).at(T + 5, held_by(A), power=70.0)
    assert run.owned(A).energy is None
    assert run.device.power == 70


def test_a_new_series_is_zero_for_the_hold_time_and_then_shows_what_has_accumulated():
    run = Run(hold=30).at(T, held_by(A))
    for second in range(5, 30, 5):
        run.at(T + second, held_by(A), spans_of(T + second - 5, T + second, 0.0))
        owned = run.owned(A)
        assert owned.share == 1
        assert owned.allocated == owned.observed == sum(owned.buckets) == sum(owned.gaps) == 0
    run.at(T + 35, held_by(A), spans_of(T + 25, T + 35, 1.0))
    assert (run.owned(A).allocated, run.owned(A).observed, run.owned(A).busy) == (35, 35, 10)


def test_an_ended_series_keeps_its_final_value_for_the_hold_time_and_its_allocation_ends_at_once():
    run = Run(hold=30).at(T, held_by(A)).at(T + 60, held_by(A), spans_of(T, T + 60))
    final = run.owned(A)
    run.at(T + 65)
    assert run.owned(A) == replace(final, share=None, memory=None, processes=None)
    assert run.at(T + 94).workloads == [A.id]
    assert run.at(T + 100).workloads == []


def test_a_workload_that_lived_for_less_than_the_hold_time_is_shown_for_that_long_all_the_same():
    """Else it would never be scraped with another value than 0."""
    run = Run(hold=30).at(T, held_by(A)).at(T + 5, held_by(A), spans_of(T, T + 5)).at(T + 10)
    assert run.owned(A).allocated == 0
    run.at(T + 30)
    assert (run.owned(A).allocated, run.owned(A).share) == (5, None)
    assert run.at(T + 60).workloads == [A.id]
    assert run.at(T + 61).workloads == []


def test_a_requeued_job_goes_on_counting_and_has_no_process_yet():
    def job(start, first_process=None):
        return Ownership((Allocation(UUID, A, start, first_process),))

    run = Run(hold=30).at(T, job(T, T + 1)).at(T + 60, job(T, T + 1), spans_of(T, T + 60))
    run.at(T + 65).at(T + 70, job(T + 68), spans_of(T + 60, T + 70))
    assert (run.owned(A).start, run.owned(A).first_process) == (T + 68, None)
    assert (run.owned(A).allocated, run.owned(A).observed) == (62, 62)
    assert run.at(T + 75, job(T + 68, T + 74)).owned(A).first_process == T + 74


def test_times_that_are_known_no_more_stay_known():
    run = Run().at(T, Ownership((Allocation(UUID, A, T - 100, T - 90),))).at(T + 5, held_by(A))
    assert (run.owned(A).start, run.owned(A).first_process) == (T - 100, T - 90)


def test_a_workload_that_comes_back_within_the_hold_time_goes_on():
    run = Run(hold=30).at(T, held_by(A)).at(T + 60, held_by(A), spans_of(T, T + 60))
    run.at(T + 65).at(T + 70, held_by(A)).at(T + 75, held_by(A), spans_of(T + 70, T + 75))
    assert run.owned(A).share == 1
    assert (run.owned(A).allocated, run.owned(A).observed) == (65, 65)


def test_the_histogram_holds_seconds():
    run = Run().at(T, held_by(A))
    run.at(T + 6, held_by(A), [Span(T, T + 1, 0.0), Span(T + 1, T + 3, 0.05), Span(T + 3, T + 6, 0.96)])
    owned = run.owned(A)
    assert owned.buckets == (1, 2, 0, 0, 0, 0, 0, 3, 0)
    assert sum(owned.buckets) == owned.observed
    assert owned.weighted_utilization == pytest.approx(owned.busy)


def test_after_the_clock_was_set_back_everything_goes_on():
    run = Run().at(T, held_by(A)).at(T + 60, held_by(A), spans_of(T, T + 60))
    run.at(T - 3600, held_by(A), spans_of(T - 3605, T - 3600)).at(
        T - 3590, held_by(A), spans_of(T - 3600, T - 3590, 1.0)
    )
    assert 70 <= run.owned(A).allocated <= 75
    assert 70 <= run.device.observed <= 75
    run.at(T - 3585)
    assert run.owned(A).share is None, "an end is seen at once, not when the old time is reached"


def test_the_last_gap_is_credited_when_the_workload_ends():
    run = Run(hold=60).at(T, held_by(A)).at(T + 40, held_by(A), spans_of(T, T + 40, 0.0))
    run.at(T + 61, held_by(A), spans_of(T + 40, T + 61, 0.0))
    assert run.owned(A).gaps == (0, 0, 0, 0)
    assert run.at(T + 65).owned(A).gaps == (0, 0, 61, 0)


def test_a_gap_is_cut_where_the_gpu_changes_hands():
    run = Run().at(T, held_by(A)).at(T + 20, held_by(A), spans_of(T, T + 20, 0.0))
    run.at(T + 40, held_by(B, start=T + 25), spans_of(T + 20, T + 40, 0.0)).at(T + 41, held_by(B))
    assert run.at(T + 42, held_by(B), spans_of(T + 40, T + 42, 1.0)).owned(B).gaps == (0, 15, 0, 0)


def test_time_that_passes_twice_as_the_clock_was_set_back_is_credited_once_each_time():
    run = Run().at(T, held_by(A))
    for second in (*range(5, 105, 5), *range(5, 205, 5)):
        run.at(T + second, held_by(A), spans_of(T + second - 5, T + second, 1.0))
    # The first snapshot after the step only says that there was one.
    assert run.device.observed == pytest.approx(295)
    assert run.owned(A).observed == run.owned(A).busy == pytest.approx(295)
    assert run.owned(A).allocated == 295


def test_changing_owners_leave_nothing_behind():
    """On a GPU that can be measured, and while it cannot."""
    run = Run(hold=30)
    for turn in range(2000):
        owner = Workload(id=f"slurm/{turn}", scheduler="slurm")
        now = T + 10 * turn
        run.at(now, held_by(owner, start=now - 5), spans_of(now - 5, now) if turn < 1000 else ())
        assert len(run.workloads) <= 10
        assert len(run.accounts._devices[UUID].tenures._tenures) <= 30


POLL, PERIOD, POLLS = 2.0, 0.5, 12
UTILIZATIONS = st.lists(st.integers(0, 100), min_size=4 * POLLS, max_size=4 * POLLS)
HOLDERS = st.lists(
    st.dictionaries(st.sampled_from([A, B, C]), st.none() | st.floats(-3, POLLS * POLL), max_size=3),
    min_size=POLLS + 1,
    max_size=POLLS + 1,
)
"""Who holds the GPU at each snapshot, each with its start, which may be unknown, told late or wrong."""
LAGS = st.lists(st.floats(-0.4, 5), min_size=POLLS, max_size=POLLS)
"""By how much the newest sample of a snapshot is older than it."""
EVERYTHING = ("allocated", "observed", "busy", "energy", "weighted_utilization", "gaps", "buckets")


def measured(utilizations):
    return [Span(T + n * PERIOD, T + (n + 1) * PERIOD, percent / 100) for n, percent in enumerate(utilizations)]


def play(utilizations, holders, lags, *, hold=1e6, processes=None, pids=None):
    """A run with a snapshot per poll, each of which tells what was measured up to its lag. Yields after each."""
    run, told = Run(hold=0.0), 0
    run.accounts = Accounts(hold=hold)
    spans = measured(utilizations)
    for poll, starts in enumerate(holders):
        now = T + poll * POLL
        until = now - (lags[poll - 1] if 0 < poll < POLLS else 0)
        end = sum(span.end <= until for span in spans)
        allocations = tuple(
            Allocation(UUID, workload, None if start is None else T + start) for workload, start in starts.items()
        )
        run.at(
            now,
            Ownership(allocations, pids or {}),
            spans[told : max(told, end)],
            energy=100.0 * poll,
            processes=processes,
        )
        told = max(told, end)
        yield run


def settled(run):
    """Everything that the accounts hold, without what is shown at 0 for a time."""
    run.accounts.hold = 0.0
    view = run.accounts.update(Snapshot(run.view.snapshot.t, ()), EMPTY)
    run.accounts.hold = 1e6
    return {owned.workload.id: owned for owned in view.owned}


@given(UTILIZATIONS, HOLDERS, LAGS, st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_whoever_holds_a_gpu_together_they_never_have_more_than_the_device(utilizations, holders, lags, work):
    processes = tuple(Process(pid, 0, share) for pid, share in enumerate(work))
    for run in play(utilizations, holders, lags, processes=processes, pids={0: A.id, 1: B.id, 2: C.id, 3: C.id}):
        owned = settled(run).values()
        passed = run.view.snapshot.t - T
        assert sum(one.allocated for one in owned) <= passed + 1e-6
        assert sum(one.observed for one in owned) <= (run.device.observed or 0) + 1e-6
        assert sum(one.busy for one in owned) <= (run.device.busy or 0) + 1e-6
        assert sum(one.energy or 0 for one in owned) <= 50 * passed + 1e-6
        # Late samples come later; one that ends while the GPU is read may belong to time that is not counted yet.
        assert all(one.observed <= one.allocated + PERIOD + 1e-6 for one in owned)


@given(UTILIZATIONS, HOLDERS, LAGS)
def test_every_observed_second_is_in_the_histogram_and_every_idle_one_in_a_gap(utilizations, holders, lags):
    *_, run = play(utilizations, [*holders[:-1], {}], lags)
    for owned in settled(run).values():
        assert sum(owned.buckets) == pytest.approx(owned.observed)
        assert sum(owned.gaps) == pytest.approx(owned.buckets[0] + owned.buckets[1])
        assert owned.weighted_utilization <= owned.observed + 1e-6


@given(UTILIZATIONS, HOLDERS, LAGS, st.sampled_from([0.0, 5.0, 1e6]))
def test_counters_never_fall_while_their_series_are_shown(utilizations, holders, lags, hold):
    before = {}
    for run in play(utilizations, holders, lags, hold=hold):
        now = {
            owned.workload.id: (owned.allocated, owned.observed, owned.busy, *owned.gaps, *owned.buckets)
            for owned in run.view.owned
        }
        for workload in before.keys() & now.keys():
            assert all(x <= y for x, y in zip(before[workload], now[workload], strict=True))
        before = now


@given(UTILIZATIONS, HOLDERS, LAGS)
def test_starts_that_are_known_lose_nothing_between_one_holder_and_the_next(utilizations, holders, lags):
    """As Slurm's prolog tells them: the next one's start is the end of the one before."""
    starts = [{A: None}]
    for poll, at in enumerate(holders[1:]):
        workload = [A, B, C][len(at) % 3]
        known = starts[-1].get(workload, poll * POLL + 0.75)
        starts.append({workload: known})
    *_, run = play(utilizations, starts, lags)
    owned = settled(run).values()
    assert sum(one.allocated for one in owned) == pytest.approx(POLLS * POLL)
    assert sum(one.observed for one in owned) == pytest.approx(run.device.observed)
    assert sum(one.busy for one in owned) == pytest.approx(run.device.busy)


@given(UTILIZATIONS, LAGS, st.sets(st.integers(1, POLLS - 1)), st.sampled_from([(A,), (A, B)]))
def test_polling_more_rarely_and_telling_the_past_again_gives_the_same_totals(utilizations, lags, left_out, workloads):
    [*_, often] = play(utilizations, [dict.fromkeys(workloads)] * (POLLS + 1), lags)
    rarely, spans = Run(), measured(utilizations)
    for poll in sorted(set(range(POLLS + 1)) - left_out):
        now = T + poll * POLL
        told = [span for span in spans if span.end <= now]
        rarely.at(now, held_by(*workloads), told, energy=100.0 * poll)
    expected, found = settled(often), settled(rarely)
    assert expected.keys() == found.keys()
    for workload, owned in found.items():
        for name in EVERYTHING:
            assert getattr(owned, name) == pytest.approx(getattr(expected[workload], name)), name


def test_a_pod_that_slurm_displaces_keeps_its_counters_and_nothing_is_counted_twice():
    """The GPU of a pod in which Slurm runs one job, nothing, and another: far longer than series are held."""
    pod, job, other = A, B, C
    gone = {"displaced": frozenset({(UUID, pod.id)})}
    in_job = replace(held_by(job, start=T + 22), **gone)
    in_other = replace(held_by(other), **gone)
    run, t = Run(hold=10), T
    for ownership, until in (
        (held_by(pod, start=T - 3600), T + 20),
        (in_job, T + 100),
        (held_by(pod, start=T - 3600), T + 140),
        (in_other, T + 200),
    ):
        while t < until:
            run.at(t + 5, ownership, spans_of(t, t + 5, 1.0 if ownership in (in_job, in_other) else 0.0))
            t += 5
            shown = {owned.workload.id: owned for owned in run.view.owned}
            assert shown[pod.id].share == (None if ownership in (in_job, in_other) else 1)
            assert sum(1 for owned in shown.values() if owned.share is not None) == 1
    # A job ends when it was seen last, and the pod has the rest: 17 s before the first, 40 after it, 5 until the next.
    shown = {owned.workload.id: (owned.allocated, owned.observed, owned.busy) for owned in run.view.owned}
    assert shown[pod.id] == pytest.approx((17 + 40 + 5, 17 + 40 + 5, 2 + 5))
    assert shown[other.id] == pytest.approx((55, 55, 55))
    assert run.device.busy == pytest.approx(80 + 60)
