"""Whoever holds a GPU and however late its samples come, what is credited adds up."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.accounting import Accounts
from dutycycle_exporter.model import Allocation, Ownership, Process, Snapshot, Span, Workload
from tests.exporter.accounts import EMPTY, UUID, A, B, C, Run, T, held_by

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
def test_observed_seconds_fill_the_histogram_and_idle_ones_at_most_the_gaps(utilizations, holders, lags):
    *_, run = play(utilizations, [*holders[:-1], {}], lags)
    for owned in settled(run).values():
        assert sum(owned.buckets) == pytest.approx(owned.observed)
        # A workload that left and came back was not measured meanwhile: gaps on both sides have no length.
        assert sum(owned.gaps) <= owned.buckets[0] + owned.buckets[1] + 1e-6
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


D = Workload(id="slurm/4", scheduler="slurm")
TURNS = st.lists(
    st.tuples(
        st.sampled_from([(), (A,), (B,), (C, D)]),
        st.floats(0.01, 1),
        st.tuples(st.floats(0, 500), st.floats(0, 1)),
        st.tuples(st.booleans(), st.booleans()),
    ),
    max_size=30,
)
"""Who holds the GPU at the end of a turn, and from which part of it on if they are new; its watts, and for which share
of it clocks were held down; whether either counter is read at its end."""


@given(TURNS, st.booleans())
def test_what_slow_counters_tell_is_of_those_who_held_the_gpu_between_readings_and_all_of_it_is_shown(turns, measured):
    """To each its part of the time; what falls into time in which nobody held it goes to nobody."""
    run, names, every = Run(hold=0.0), (("energy", ""), ("throttle", "thermal")), 4.0
    run.at(T, energy=0.0, throttle=(("thermal", 0.0),))
    holders, since, truth, told = (), T, (0.0, 0.0), [0.0, 0.0]
    stretches, due, shown, before = ([], []), Counter(), Counter(), {}
    for number, (new, part, rates, read) in enumerate([*turns, ((), 1.0, (0.0, 0.0), (True, True))]):
        start, now = T + number * every, T + (number + 1) * every
        if new != holders:
            since = start + part * every if new else start
        cut = min(max(start, since), now)
        truth = tuple(value + rate * every for value, rate in zip(truth, rates, strict=True))
        for name, counter, held in zip(names, (0, 1), stretches, strict=True):
            held += [(cut - start, holders), (now - cut, new)]
            if read[counter]:
                rate = (truth[counter] - told[counter]) / sum(length for length, _ in held)
                for length, together in held:
                    for workload in together or (None,):
                        due[name, workload and workload.id] += rate * length / max(1, len(together))
                told[counter] = truth[counter]
                held.clear()
        holders = new
        run.at(
            now,
            held_by(*new, start=since),
            [Span(start, now, 0.5)] if measured else (),
            energy=told[0],
            throttle=(("thermal", told[1]),),
            carried=frozenset(name for name, fresh in zip(names, read, strict=True) if not fresh),
        )
        after = {(names[0], owned.workload.id): owned.energy or 0.0 for owned in run.view.owned}
        after |= {(names[1], owned.workload.id): sum(dict(owned.throttle).values()) for owned in run.view.owned}
        shown.update({key: value - before.get(key, 0.0) for key, value in after.items()})
        before = after
    for name, counted in zip(names, truth, strict=True):
        assert sum(value for (of, _), value in due.items() if of == name) == pytest.approx(counted)
    assert {key for key, value in due.items() if value > 1e-6 and key[1]} <= shown.keys()
    assert all(value == pytest.approx(due[key], abs=1e-6) for key, value in shown.items())


STEPS = st.lists(
    st.tuples(st.floats(0.1, 60), st.just(0.0) | st.floats(-10, 10) | st.floats(-1e7, 1e7)), min_size=1, max_size=20
)
"""Snapshots: the seconds that passed since the one before, and by how much the clock was set meanwhile."""


@given(STEPS, st.floats(0, 1), st.sampled_from([0.0, 30.0]), st.booleans())
def test_however_the_clock_is_set_time_counts_as_it_passes_and_no_counter_falls(steps, utilization, hold, known):
    run, passed, day = Run(hold=hold), 50.0, T - 50
    run.at(passed + day, held_by(A, start=T - 100 if known else None), elapsed=passed, energy=0.0)
    shown = (0.0,) * 6
    for seconds, step in steps:
        before, passed, day = passed, passed + seconds, day + step
        spans = [Span(before, passed, utilization)]
        run.at(passed + day, held_by(A), spans, elapsed=passed, energy=100 * (passed - 50))
        owned = run.owned(A)
        now = owned.allocated, owned.observed, owned.busy, owned.energy, sum(owned.gaps), sum(owned.buckets)
        assert all(x <= y for x, y in zip(shown, now, strict=True))
        shown = now
        assert run.device.observed == pytest.approx(passed - 50)
        assert run.device.power == pytest.approx(100)
        assert owned.share == 1.0
        if passed - 50 >= hold:
            assert now[:4] == pytest.approx(
                (passed - 50, passed - 50, utilization * (passed - 50), 100 * (passed - 50))
            )
        assert run.device.last_busy in (None, pytest.approx(passed + day, abs=0.11))


@given(STEPS, st.lists(st.floats(-1e7, 1e7) | st.floats(0, 600), min_size=1, max_size=20))
def test_whatever_starts_say_by_a_clock_that_is_set_together_they_have_no_more_than_the_time_that_passed(steps, starts):
    run, passed, day = Run(), 50.0, T - 50
    run.at(passed + day, elapsed=passed)
    for number, (seconds, step) in enumerate(steps):
        passed, day = passed + seconds, day + step
        workload, start = (A, B, C)[number // 2 % 3], T + starts[number % len(starts)]
        run.at(passed + day, held_by(workload, start=start), [Span(passed - seconds, passed, 1.0)], elapsed=passed)
        assert all(owned.allocated >= 0 for owned in run.view.owned)
        assert sum(owned.observed for owned in run.view.owned) <= run.device.observed + 1e-6
    assert run.device.observed <= passed - 50 + 1e-6
    assert sum(one.allocated for one in settled(run).values()) <= passed - 50 + 1e-6
