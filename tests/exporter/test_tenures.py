"""Who held a GPU when: exact where starts are known, and never more than one GPU's worth."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.tenures import Tenure, Tenures

T = 1000.0


def handed_over(*snapshots, every=10.0):
    """The tenures of the last of some snapshots, each of which tells the holders with their starts."""
    tenures, found, t = Tenures(), [], T
    for number, starts in enumerate(snapshots):
        t = T + number * every
        found = tenures.hand_over(starts, t - every if number else t, t)
    return [(tenure.start - (t - every), tenure.end - (t - every), "".join(tenure.holders)) for tenure in found]


@pytest.mark.parametrize(
    ("snapshots", "expected"),
    [
        pytest.param([{"A": None}], [], id="at the first snapshot no time has passed"),
        pytest.param([{"A": None}, {"A": None}], [(0, 10, "A")], id="one goes on"),
        pytest.param([{}, {}], [(0, 10, "")], id="nobody"),
        pytest.param([{}, {"A": T + 4}], [(0, 4, ""), (4, 10, "A")], id="a known start"),
        pytest.param([{}, {"A": None}], [(0, 10, "")], id="an unknown start counts from now"),
        pytest.param([{}, {"A": T - 500}], [(0, 10, "A")], id="a start of before counts from the last snapshot"),
        pytest.param([{}, {"A": T + 500}], [(0, 10, "")], id="a start in the future counts from now"),
        pytest.param([{"A": None}, {}], [(0, 10, "")], id="an end that nobody saw was when it was seen last"),
        pytest.param([{"A": None}, {"B": T + 4}], [(0, 4, "A"), (4, 10, "B")], id="one takes over at a known start"),
        pytest.param([{"A": None}, {"B": None}], [(0, 10, "")], id="one takes over, nobody knows when"),
        pytest.param([{"A": None}, {"B": T - 500}], [(0, 10, "B")], id="one takes over whose start is told late"),
        pytest.param([{"A": None}, {"A": None, "B": T + 4}], [(0, 4, "A"), (4, 10, "AB")], id="one joins"),
        pytest.param([{"A": None, "B": None}, {"B": None}], [(0, 10, "B")], id="one leaves"),
        pytest.param(
            [{"A": None, "B": None, "C": None}, {"C": None, "D": T + 6}],
            [(0, 6, "ABC"), (6, 10, "CD")],
            id="two leave, one joins, one stays",
        ),
        pytest.param(
            [{"A": None}, {"B": T + 4, "C": T + 7}],
            [(0, 4, "A"), (4, 7, "B"), (7, 10, "BC")],
            id="two take over one after the other",
        ),
        pytest.param([{"A": None}, {}, {"A": None}], [(0, 10, "")], id="back again from now"),
        pytest.param([{"A": None}, {}, {"A": T + 12}], [(0, 2, ""), (2, 10, "A")], id="back again from a known start"),
    ],
)
def test_tenures_since_the_snapshot_before(snapshots, expected):
    assert handed_over(*snapshots) == expected


@pytest.mark.parametrize(
    ("snapshots", "expected"),
    [
        pytest.param([({"P": None}, ""), ({"J": T + 4}, "P")], [(0, 4, "P"), (4, 10, "J")], id="from a known start on"),
        pytest.param([({"P": None}, ""), ({"J": None}, "P")], [(0, 10, "P")], id="from now on, as nobody knows when"),
        pytest.param([({"P": None}, ""), ({"J": T - 500}, "P")], [(0, 10, "J")], id="told late: nothing counts twice"),
        pytest.param(
            [({"P": None}, ""), ({"J": T + 4, "K": T + 7}, "P")],
            [(0, 4, "P"), (4, 7, "J"), (7, 10, "JK")],
            id="by two, one after the other",
        ),
        pytest.param(
            [({"P": None, "Q": None}, ""), ({"J": T + 4, "Q": None}, "P")],
            [(0, 4, "PQ"), (4, 10, "JQ")],
            id="while another goes on sharing",
        ),
        pytest.param([({"J": None}, "P"), ({"P": None}, "")], [(0, 10, "P")], id="back from the end of the last on"),
        pytest.param([({"J": None}, "P"), ({"P": T - 500}, "")], [(0, 10, "P")], id="back, its start being known"),
        pytest.param([({"J": None}, "P"), ({"K": T + 4}, "P")], [(0, 4, "J"), (4, 10, "K")], id="from one to the next"),
        pytest.param([({"J": None}, "P"), ({"K": None}, "P")], [(0, 10, "P")], id="back between two"),
        pytest.param([({"J": None}, "P"), ({}, "")], [(0, 10, "")], id="over with the job"),
        pytest.param([({"J": None}, "P"), ({}, ""), ({"P": None}, "")], [(0, 10, "")], id="over, and another begins"),
    ],
)
def test_one_that_is_displaced_holds_all_time_that_those_who_displace_it_do_not(snapshots, expected):
    tenures, found = Tenures(), []
    for number, (starts, displaced) in enumerate(snapshots):
        t = 10.0 * number
        found = tenures.hand_over(
            {holder: None if start is None else start - T + t - 10 for holder, start in starts.items()},
            t - 10 if number else t,
            t,
            displaced,
        )
    assert [(one.start - (t - 10), one.end - (t - 10), "".join(one.holders)) for one in found] == expected


def test_what_is_told_late_finds_those_who_held_the_gpu_then():
    tenures = Tenures()
    tenures.hand_over({"A": None}, T, T)
    tenures.hand_over({"B": T + 4}, T, T + 10)
    tenures.hand_over({"B": T + 4}, T + 10, T + 20)
    assert list(tenures.during(T + 2, T + 12)) == [Tenure(T + 2, T + 4, ("A",)), Tenure(T + 4, T + 12, ("B",))]


def test_what_ends_a_little_after_the_snapshot_is_of_those_who_hold_it_now():
    tenures = Tenures()
    tenures.hand_over({"A": None}, T, T)
    tenures.hand_over({"A": None}, T, T + 10)
    assert list(tenures.during(T + 9, T + 10.5)) == [Tenure(T + 9, T + 10.5, ("A",))]


def test_the_time_of_before_the_first_snapshot_is_nobodys():
    tenures = Tenures()
    tenures.hand_over({"A": None}, T, T)
    assert list(tenures.during(T - 16, T + 1)) == []


def test_what_is_forgotten_takes_no_memory_and_the_present_is_never_forgotten():
    tenures = Tenures()
    for turn in range(1000):
        tenures.hand_over({"AB"[turn % 2]: None}, T + turn, T + turn + 1)
        tenures.forget(T + turn)
    assert len(list(tenures.during(0, 1e9))) <= 3
    tenures.forget(1e9)
    assert len(list(tenures.during(0, 1e9))) == 1


HOLDERS = st.dictionaries(st.sampled_from("ABCD"), st.none() | st.floats(-5, 105).map(T.__add__), max_size=4)


@given(st.lists(HOLDERS, min_size=1, max_size=10))
def test_tenures_lie_end_to_end_and_are_held_by_those_who_were_seen(snapshots):
    tenures, end = Tenures(), T
    for number, starts in enumerate(snapshots):
        now = T + 10 * number
        found = tenures.hand_over(starts, end, now)
        assert sum(tenure.length for tenure in found) == pytest.approx(now - end)
        assert all(a.end == b.start for a, b in pairwise(found))
        assert all(tenure.holders == tuple(sorted(set(tenure.holders))) for tenure in found)
        seen = set(starts) | set(snapshots[number - 1] if number else ())
        assert {holder for tenure in found for holder in tenure.holders} <= seen
        end = now


@given(st.lists(st.dictionaries(st.sampled_from("JK"), st.none() | st.floats(-5, 105).map(T.__add__)), max_size=10))
def test_a_pod_and_the_jobs_that_displace_it_leave_no_moment_to_nobody(snapshots):
    """And at none do the pod and a job hold the GPU together."""
    tenures, end = Tenures(), T
    tenures.hand_over({"P": None}, T, T)
    for number, jobs in enumerate(snapshots, start=1):
        now = T + 10 * number
        found = tenures.hand_over(jobs or {"P": None}, end, now, {"P"} if jobs else ())
        assert sum(tenure.length for tenure in found) == pytest.approx(now - end)
        assert all(tenure.holders for tenure in found), "the GPU was somebody's all the time"
        assert not any("P" in tenure.holders and len(tenure.holders) > 1 for tenure in found)
        end = now
