"""When a workload's series are shown: at 0 when new, at their final value when it has ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutycycle_exporter.model import Allocation, Ownership
from tests.exporter.accounts import EMPTY, UUID, A, B, C, Run, T, held_by, spans_of


def test_a_new_series_is_zero_for_the_hold_time_and_then_shows_what_has_accumulated():
    run = Run(hold=30).at(T, held_by(A))
    for second in range(5, 30, 5):
        run.at(T + second, held_by(A), spans_of(T + second - 5, T + second, 0.0))
        owned = run.owned(A)
        assert owned.share == 1
        assert owned.allocated == owned.observed == sum(owned.buckets) == sum(owned.gaps) == 0
    run.at(T + 35, held_by(A), spans_of(T + 25, T + 35, 1.0))
    assert (run.owned(A).allocated, run.owned(A).observed, run.owned(A).busy) == (35, 35, 10)


@pytest.mark.parametrize("step", [-3600, 3600])
def test_a_series_is_as_old_after_the_clock_was_set_as_before(step):
    """At 0 once more, PromQL's increase() would count again all that it held; and a new one is at 0 all the same."""
    run = Run(hold=30).at(T, held_by(A), elapsed=0).at(T + 60, held_by(A, B), spans_of(T, T + 60), elapsed=60)
    before = run.owned(A).allocated
    assert before > 0
    run.at(T + 65 + step, held_by(A, B), elapsed=65)
    assert (run.owned(A).allocated, run.owned(B).allocated) == (before + 2.5, 0)
    run.at(T + 70 + step, held_by(A, B), elapsed=70)
    assert run.owned(A).allocated > before
    assert run.owned(B).allocated == 0


def test_an_ended_series_is_shown_for_as_long_whatever_the_clock_was_set_to():
    run = Run(hold=30).at(T, held_by(A), elapsed=0).at(T + 60, held_by(A), elapsed=60).at(T + 65, elapsed=65)
    assert run.at(T + 70 + 3600, elapsed=70).workloads == [A.id]
    assert run.at(T + 95 + 3600, elapsed=95).workloads == [A.id]
    assert run.at(T + 100 + 3600, elapsed=100).workloads == []


def test_an_ended_series_keeps_its_final_value_for_the_hold_time_and_its_allocation_ends_at_once():
    run = Run(hold=30).at(T, held_by(A)).at(T + 60, held_by(A), spans_of(T, T + 60))
    final = run.owned(A)
    run.at(T + 65)
    assert run.owned(A) == replace(final, share=None, memory=None, processes=None)
    assert run.at(T + 94).workloads == [A.id]
    assert run.at(T + 100).workloads == []


def test_an_ended_series_is_shown_for_the_hold_time_from_when_its_last_counter_was_read():
    """Else what a slow counter tells of it would be scraped never or hardly ever, or have nobody to go to."""
    run, carried = Run(hold=10), frozenset({("energy", ""), ("throttle", "thermal")})
    told = {"energy": 0.0, "throttle": (("thermal", 0.0),)}
    run.at(T - 60, held_by(A), **told).at(T - 15, held_by(A), **told)
    for second in range(-10, 15, 5):
        run.at(T + second, held_by(A) if second < 0 else EMPTY, **told, carried=carried)
        assert run.workloads == [A.id]
    read = {"energy": 3000.0, "throttle": (("thermal", 15.0),)}
    run.at(T + 15, **read)
    assert (run.owned(A).energy, dict(run.owned(A).throttle)) == (1000, {"thermal": 5}), "it was last seen at T - 5"
    assert run.at(T + 25, **read).workloads == [A.id]
    assert run.at(T + 26, **read).workloads == []


@pytest.mark.parametrize("visible", [True, False])
def test_a_counter_that_is_not_read_any_more_keeps_no_series_for_good(visible):
    """Of a GPU that is lost, or whose counter fails."""
    run, carried = Run(hold=10), frozenset({("energy", "")})
    run.at(T, held_by(A), energy=0.0)
    for second in range(5, 145, 5):
        run.at(T + second, energy=0.0, carried=carried, visible=visible)
    assert run.workloads == []


@pytest.mark.parametrize("counter", ["energy", "throttle"])
def test_a_counter_that_is_told_no_more_is_waited_for_for_a_few_turns_only(counter):
    """A throttle reason that a driver does not list any more, or an energy that fails from now on."""
    told = {"energy": 0.0} if counter == "energy" else {"throttle": (("thermal", 0.0),)}
    run = Run(hold=10).at(T, held_by(A), **told).at(T + 5, held_by(A), **told)
    run.at(T + 10).at(T + 15)
    run.at(T + 20)
    assert run.at(T + 30).workloads == [A.id]
    assert run.at(T + 31).workloads == []
    run.at(T + 60, held_by(A)).at(T + 90).at(T + 101)
    assert run.workloads == [], "nobody waits for it again"


@pytest.mark.parametrize("counter", ["energy", "throttle"])
@pytest.mark.parametrize("carried", [True, False])
def test_a_counter_that_is_told_at_every_other_turn_is_waited_for(counter, carried):
    """Readings that fail now and then add up to nothing, whether those between are new or are told again."""
    told = {"energy": 0.0} if counter == "energy" else {"throttle": (("thermal", 0.0),)}
    again = {**told, "carried": frozenset({("energy", ""), ("throttle", "thermal")})} if carried else told
    run = Run(hold=4).at(T, held_by(A), **told)
    for turn in range(3):
        run.at(T + 10 * turn + 5, held_by(A)).at(T + 10 * turn + 10, held_by(A), **again)
    run.at(T + 35).at(T + 40)
    assert run.at(T + 42).workloads == [A.id]


@pytest.mark.parametrize("counter", ["energy", "throttle"])
def test_over_a_reading_that_failed_a_counter_is_waited_for(counter):
    told = {"energy": 0.0} if counter == "energy" else {"throttle": (("thermal", 0.0),)}
    read = {"energy": 1000.0} if counter == "energy" else {"throttle": (("thermal", 5.0),)}
    run = Run(hold=4).at(T, held_by(A), **told).at(T + 5, held_by(A)).at(T + 10, EMPTY).at(T + 15, **read)
    owned = run.owned(A)
    assert (owned.energy or sum(dict(owned.throttle).values())) > 0


def test_one_that_comes_back_before_its_last_counter_was_read_goes_on():
    run, carried = Run(hold=10), frozenset({("energy", "")})
    run.at(T, held_by(A), energy=0.0).at(T + 5, energy=100.0).at(T + 10, held_by(A, start=T + 7), energy=200.0)
    for second in range(15, 60, 5):
        run.at(T + second, held_by(A, start=T + 7), energy=200.0, carried=carried)
    run.at(T + 60, energy=1200.0, carried=carried).at(T + 65, energy=1300.0)
    assert run.workloads == [A.id]
    assert run.owned(A).energy == pytest.approx(60 + 20 * 45)


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
