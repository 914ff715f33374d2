"""Idle gaps are credited once, whole, to the bucket of their length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_exporter.contract import GAP_LENGTHS
from dutycycle_exporter.gaps import IdleGaps


def gaps_of(pieces, *, time_scale=1.0, share=1.0, finish=True):
    """Seconds by length over stretches (seconds, utilization); a utilization of None is a hole."""
    gaps, t = IdleGaps(time_scale), 1_750_000_000.0
    for seconds, utilization in pieces:
        if utilization is not None:
            gaps.add(t, t + seconds, utilization, share)
        t += seconds
    if finish:
        gaps.finish()
    return {
        length: pytest.approx(seconds, abs=1e-5)
        for length, seconds in zip(GAP_LENGTHS, gaps.seconds, strict=True)
        if seconds
    }


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param([(1.9, 0.0), (1, 1.0)], {"lt2": 1.9}, id="just under 2 s"),
        pytest.param([(2.1, 0.0), (1, 1.0)], {"2to30": 2.1}, id="just over 2 s"),
        pytest.param([(29.9, 0.0), (1, 1.0)], {"2to30": 29.9}, id="just under 30 s"),
        pytest.param([(30.1, 0.0), (1, 1.0)], {"30to600": 30.1}, id="just over 30 s"),
        pytest.param([(599.9, 0.0), (1, 1.0)], {"30to600": 599.9}, id="just under 600 s"),
        pytest.param([(600.1, 0.0), (1, 1.0)], {"ge600": 600.1}, id="just over 600 s"),
        pytest.param([(1, 0.05), (1, 0.06)], {"lt2": 1}, id="5 % is idle, 6 % is not"),
        pytest.param([(10, 1.0)], {}, id="never idle"),
        pytest.param([(1, 0.0), (1, 0.0), (1, 0.03), (1, 0.5)], {"2to30": 3}, id="consecutive samples are one gap"),
        pytest.param([(1, 0.0), (1, 0.5), (1, 0.0), (1, 0.5)], {"lt2": 2}, id="work between makes two gaps"),
        pytest.param([(20, 0.0), (5, None), (20, 0.0), (1, 1.0)], {}, id="a hole hides the length of both gaps"),
        pytest.param([(25, 0.0), (5, None)] * 120, {}, id="an hour of idling with holes is no short gaps"),
        pytest.param([(610, 0.0), (5, None), (620, 0.0)], {"ge600": 1230}, id="600 s were measured despite a hole"),
        pytest.param([(9, 0.0), (5, None), (1, 1.0), (9, 0.0), (1, 1.0)], {"2to30": 9}, id="known again after work"),
    ],
)
def test_gaps_by_length(pieces, expected):
    assert gaps_of(pieces) == expected


def test_nothing_is_credited_while_a_short_gap_may_still_grow():
    assert gaps_of([(599, 0.0)], finish=False) == {}


def test_a_gap_of_600_seconds_is_credited_and_grows_from_then_on():
    gaps = IdleGaps()
    shown = []
    for second in range(700):
        gaps.add(second, second + 1, 0.0, 1.0)
        shown.append(gaps.seconds[3])
    assert shown[598] == 0
    assert shown[599] == 600
    assert shown[699] == 700
    gaps.finish()
    assert sum(gaps.seconds) == 700


def test_the_end_of_the_workload_credits_its_last_gap_once():
    gaps = IdleGaps()
    gaps.add(0, 10, 0.0, 1.0)
    gaps.finish()
    gaps.finish()
    assert gaps.seconds == [0, 10, 0, 0]


def test_bounds_are_divided_by_the_time_scale_and_seconds_are_not():
    assert gaps_of([(1.5, 0.0), (1, 1.0)], time_scale=30) == {"30to600": 1.5}


def test_length_is_time_and_credit_is_share_of_time():
    assert gaps_of([(40, 0.0), (1, 1.0)], share=0.5) == {"30to600": 20}


@given(
    st.lists(
        st.tuples(st.integers(1, 400), st.sampled_from([0.0, 0.05, 0.06, 1.0]), st.integers(1, 8)),
        max_size=40,
    )
)
def test_every_idle_second_is_credited_exactly_once_however_the_stretches_are_cut(pieces):
    # A little more than whole seconds, so that no sum lies on a bound, where the last bit would decide.
    pieces = [(seconds + 0.01, utilization, parts) for seconds, utilization, parts in pieces]
    whole = [(seconds, utilization) for seconds, utilization, _ in pieces]
    cut = [(seconds / parts, utilization) for seconds, utilization, parts in pieces for _ in range(parts)]
    idle = sum(seconds for seconds, utilization in whole if utilization <= 0.05)
    credited, credited_cut = gaps_of(whole), gaps_of(cut)
    assert credited.keys() == credited_cut.keys()
    assert all(credited[length].expected == credited_cut[length] for length in credited)
    assert sum(value.expected for value in credited.values()) == pytest.approx(idle, abs=1e-4)
