"""Spans are credited to those who held the GPU during them: nothing lost, nothing doubled, nothing invented."""

from __future__ import annotations

import pytest

from dutycycle_exporter.model import Activity, Process, Span, Workload
from tests.exporter.accounts import EMPTY, UUID, A, B, C, Run, T, held_by, spans_of


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


def test_a_gpu_that_nobody_holds_is_measured_as_any_other():
    """Before its first workload, between two, and with processes that are nobody's."""
    run = Run().at(T, energy=0.0, processes=(Process(30, 1e9),))
    run.at(T + 5, EMPTY, spans_of(T, T + 5, 1.0), energy=500.0, processes=(Process(30, 1e9),))
    run.at(T + 10, held_by(A, start=T + 6), spans_of(T + 5, T + 10, 1.0), energy=1000.0)
    run.at(T + 15, EMPTY, spans_of(T + 10, T + 15, 1.0), energy=1500.0, processes=())
    run.at(T + 20, EMPTY, spans_of(T + 15, T + 20, 1.0), energy=2000.0)
    assert (run.device.busy, run.device.observed, run.device.power) == (20, 20, 100)
    assert run.workloads == []


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


def test_what_the_energy_counter_counts_over_a_reading_that_failed_is_credited_at_the_next():
    """Its mean power is of the whole time between the two; until then NVML's own is shown."""
    run = Run().at(T, held_by(A), energy=0.0).at(T + 10, held_by(A), energy=1000.0, power=90.0)
    assert run.device.power == 100
    run.at(T + 20, held_by(A), power=90.0)
    assert (run.device.power, run.owned(A).energy) == (90, 1000)
    run.at(T + 30, held_by(A), energy=11000.0, power=90.0)
    assert (run.device.power, run.owned(A).energy) == (500, 11000)
    run.at(T + 40, held_by(A), energy=15000.0, power=90.0)
    assert (run.device.power, run.owned(A).energy) == (400, 15000)


def test_what_counted_over_a_reading_that_failed_is_of_those_who_held_the_gpu_meanwhile():
    run = Run(hold=60).at(T, held_by(A), energy=0.0).at(T + 10, held_by(B, start=T + 10))
    run.at(T + 40, held_by(B, start=T + 10), energy=4000.0).at(T + 75, held_by(B, start=T + 10), energy=4000.0)
    assert {owned.workload.id: owned.energy for owned in run.view.owned} == {A.id: 1000, B.id: 3000}


def test_a_counter_that_stood_still_gives_nobody_what_it_counted_before_and_after():
    stopped = frozenset({("energy", "")})
    run = Run().at(T, held_by(A), energy=0.0).at(T + 10, held_by(A), stopped=stopped)
    run.at(T + 20, held_by(A), energy=2000.0).at(T + 30, held_by(A), energy=3000.0)
    assert (run.device.power, run.owned(A).energy) == (100, 1000)


def test_a_counter_that_is_not_read_at_each_turn_is_credited_whole_at_the_next_reading():
    """Half of the energy's turns and five of six of a throttle counter's tell what an earlier one read."""
    run, carried = Run(), frozenset({("energy", ""), ("throttle", "thermal")})
    told = {"energy": 0.0, "throttle": (("thermal", 0.0),), "power": 70.0}
    run.at(T, held_by(A), **told).at(T + 5, held_by(A), **{**told, "power": 80.0}, carried=carried)
    assert run.device.power == 80, "no mean is known yet"
    assert dict(run.owned(A).throttle) == {"thermal": 0}, "the series begins with its workload"
    told = {"energy": 3000.0, "throttle": (("thermal", 9.0),), "power": 70.0}
    run.at(T + 10, held_by(A), **told)
    assert (run.device.power, run.owned(A).energy, dict(run.owned(A).throttle)) == (300, 3000, {"thermal": 9})
    run.at(T + 15, held_by(A), **told, carried=carried)
    assert (run.device.power, run.owned(A).energy, dict(run.owned(A).throttle)) == (300, 3000, {"thermal": 9})
    run.at(T + 20, held_by(A), **{**told, "energy": 3500.0})
    assert (run.device.power, run.owned(A).energy, dict(run.owned(A).throttle)) == (50, 3500, {"thermal": 9})


def test_a_throttle_counter_is_there_at_0_from_a_workloads_first_snapshot_on():
    run = Run().at(T, held_by(A), throttle=(("thermal", 7.0),))
    assert dict(run.owned(A).throttle) == {"thermal": 0}, "what it counted before is nobody's"
    run.at(T + 5, held_by(A, B), throttle=(("thermal", 7.0),)).at(T + 10, held_by(A, B), throttle=(("thermal", 8.0),))
    assert [dict(run.owned(workload).throttle) for workload in (A, B)] == [{"thermal": 0.5}, {"thermal": 0.5}]


def test_a_counter_is_of_when_it_was_read_and_not_of_its_snapshots_instant():
    """Snapshots that waited for the exporter are told within milliseconds, and calls that take seconds are late."""
    run = Run()
    for seconds, late in ((0, 0.1), (10, 0.1), (29, 1.0), (29.1, 10.9)):
        counted = seconds + late
        told = {"energy": 400.0 * counted, "throttle": (("power", counted),)}
        run.at(T + seconds, held_by(A), counted_at=T + counted, **told)
        assert run.device.power == (None if seconds == 0 else pytest.approx(400))
    assert run.owned(A).energy == pytest.approx(400 * 39.9)
    assert dict(run.owned(A).throttle) == {"power": pytest.approx(39.9)}


@pytest.mark.parametrize("measured", [True, False])
def test_what_a_slow_counter_tells_is_of_those_who_held_the_gpu_between_its_readings(measured):
    """Whether or not the duty cycle is known, up to when everybody has been credited, as it is, at each turn."""
    run, carried = Run(hold=60), frozenset({("energy", ""), ("throttle", "thermal")})
    told = {"energy": 0.0, "throttle": (("thermal", 0.0),)}
    run.at(T, held_by(A), **told)
    for turn in range(1, 6):
        now = T + 5 * turn
        holder = held_by(A) if turn < 3 else held_by(B, start=T + 12)
        run.at(now, holder, spans_of(now - 5, now) if measured else (), **told, carried=carried)
    run.at(T + 30, held_by(B, start=T + 12), energy=3000.0, throttle=(("thermal", 15.0),))
    run.at(T + 75, held_by(B, start=T + 12), energy=3000.0, throttle=(("thermal", 15.0),))
    shown = {owned.workload.id: (owned.energy, dict(owned.throttle)["thermal"]) for owned in run.view.owned}
    assert shown == {A.id: pytest.approx((1200, 6)), B.id: pytest.approx((1800, 9))}


def test_what_gpm_tells_of_several_turns_at_once_is_of_those_who_held_the_gpu_in_each():
    """As it does after readings that failed."""
    run = Run(hold=60).at(T, held_by(A)).at(T + 5, held_by(A), spans_of(T, T + 5))
    run.at(T + 10, held_by(B, start=T + 5), spans_of(T + 5, T + 10))
    run.at(T + 15, held_by(B, start=T + 5), spans_of(T + 10, T + 15), activity=Activity(T, T + 15, (("sm", 0.6),)))
    run.at(T + 75, held_by(B, start=T + 5))
    shown = {owned.workload.id: dict(owned.active)["sm"] for owned in run.view.owned}
    assert shown == {A.id: pytest.approx(3), B.id: pytest.approx(6)}


def test_without_an_energy_counter_there_is_no_energy():
    run = Run().at(T, held_by(A), power=70.0).at(T + 5, held_by(A), power=70.0)
    assert run.owned(A).energy is None
    assert run.device.power == 70


def test_the_histogram_holds_seconds():
    run = Run().at(T, held_by(A))
    run.at(T + 6, held_by(A), [Span(T, T + 1, 0.0), Span(T + 1, T + 3, 0.05), Span(T + 3, T + 6, 0.96)])
    owned = run.owned(A)
    assert owned.buckets == (1, 2, 0, 0, 0, 0, 0, 3, 0)
    assert sum(owned.buckets) == owned.observed
    assert owned.weighted_utilization == pytest.approx(owned.busy)


STEPS = [-3600.0, -7.0, -3.0, -0.4, 0.4, 3.0, 7.0, 3600.0]


@pytest.mark.parametrize("step", STEPS)
def test_a_clock_that_is_set_costs_nothing_and_gains_nothing(step):
    run = Run().at(T, held_by(A), elapsed=100, energy=0.0)
    run.at(T + 5, held_by(A), spans_of(100, 105), elapsed=105, energy=500.0)
    run.at(T + 10 + step, held_by(A), spans_of(105, 110, 1.0), elapsed=110, energy=1000.0)
    run.at(T + 15 + step, held_by(A), spans_of(110, 115, 0.0), elapsed=115, energy=1500.0)
    owned = run.owned(A)
    assert (owned.allocated, owned.observed, owned.busy, owned.energy) == (15, 15, 7.5, 1500)
    assert (run.device.observed, run.device.busy, run.device.power) == (15, 7.5, 100)
    assert run.device.last_busy == T + 10 + step, "as the clock shows it now"
    run.at(T + 20 + step, elapsed=120)
    assert run.owned(A).share is None, "an end is seen at once"


def test_a_time_that_is_shown_stands_still_though_two_clocks_are_never_read_at_one_instant():
    run = Run().at(T, elapsed=100).at(T + 5, EMPTY, spans_of(100, 105), elapsed=105)
    shown = {run.at(T + t, elapsed=100.0004 + t - 1e-4 * (t % 3)).device.last_busy for t in range(6, 60)}
    assert shown == {T + 5}


@pytest.mark.parametrize("step", STEPS)
def test_a_gap_goes_on_while_the_clock_is_set(step):
    run = Run(hold=60).at(T, held_by(A), elapsed=0).at(T + 40, held_by(A), spans_of(0, 40, 0.0), elapsed=40)
    run.at(T + 61 + step, held_by(A), spans_of(40, 61, 0.0), elapsed=61)
    assert run.at(T + 65 + step, elapsed=65).owned(A).gaps == (0, 0, 61, 0)


@pytest.mark.parametrize("step", [-3600.0, -7.0, 7.0, 3600.0])
@pytest.mark.parametrize("told", ["before", "after"])
def test_a_start_between_two_snapshots_is_known_whether_it_was_written_before_the_clock_was_set_or_after(step, told):
    start = T + 8 + (step if told == "after" else 0)
    run = Run().at(T, elapsed=100).at(T + 5, elapsed=105).at(T + 10 + step, held_by(A, start=start), elapsed=110)
    assert (run.owned(A).allocated, run.owned(A).start) == (2, start)


def test_time_in_which_nobody_looked_did_pass():
    run = Run().at(T, held_by(A), elapsed=100).at(T + 3600, held_by(A), elapsed=3698)
    assert run.owned(A).allocated == 3598


def test_the_last_gap_is_credited_when_the_workload_ends():
    run = Run(hold=60).at(T, held_by(A)).at(T + 40, held_by(A), spans_of(T, T + 40, 0.0))
    run.at(T + 61, held_by(A), spans_of(T + 40, T + 61, 0.0))
    assert run.owned(A).gaps == (0, 0, 0, 0)
    assert run.at(T + 65).owned(A).gaps == (0, 0, 61, 0)


def test_a_gap_is_cut_where_the_gpu_changes_hands():
    run = Run().at(T, held_by(A)).at(T + 20, held_by(A), spans_of(T, T + 20, 0.0))
    run.at(T + 40, held_by(B, start=T + 25), spans_of(T + 20, T + 40, 0.0)).at(T + 41, held_by(B))
    assert run.at(T + 42, held_by(B), spans_of(T + 40, T + 42, 1.0)).owned(B).gaps == (0, 15, 0, 0)


def test_changing_owners_leave_nothing_behind():
    """On a GPU that can be measured, and while it cannot."""
    run = Run(hold=30)
    for turn in range(2000):
        owner = Workload(id=f"slurm/{turn}", scheduler="slurm")
        now = T + 10 * turn
        run.at(now, held_by(owner, start=now - 5), spans_of(now - 5, now) if turn < 1000 else ())
        assert len(run.workloads) <= 10
        assert len(run.accounts._devices[UUID].tenures._tenures) <= 30
