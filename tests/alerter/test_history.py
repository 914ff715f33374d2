"""Counters over time: what accumulated is never lost, never doubled and never invented."""

from itertools import accumulate, pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.history import ColumnSeries, Series


def series(*points: tuple[float, float | None]) -> Series:
    """One counter with raw values at instants."""
    made = Series(1)
    for t, raw in points:
        made.append(t, (raw,))
    return made


def grown(made: Series, start: float, end: float) -> float | None:
    return made.increase(start, end)[0]


def test_increase_is_the_difference_of_the_counter() -> None:
    made = series((0, 100), (10, 107), (20, 119))
    assert grown(made, 0, 20) == 19
    assert grown(made, 0, 10) == 7
    assert grown(made, 10, 20) == 12


def test_what_a_counter_held_at_its_first_point_is_not_growth() -> None:
    assert grown(series((100, 5000)), 0, 200) == 0
    assert grown(series((100, 5000), (110, 5001)), 0, 200) == 1


def test_a_counter_that_went_down_started_again_at_zero() -> None:
    """A process that restarted counts from 0: what it shows since then was added."""
    assert grown(series((0, 90), (10, 100), (20, 3), (30, 5)), 0, 30) == 10 + 3 + 2


def test_a_counter_at_zero_again_lost_nothing_of_what_was_counted() -> None:
    assert grown(series((0, 0), (10, 100), (20, 0), (30, 0)), 0, 30) == 100


def test_missing_stays_missing_at_its_point_and_nowhere_else() -> None:
    made = series((0, 0), (10, None), (20, 8))
    assert grown(made, 0, 20) == 8
    assert grown(made, 0, 10) is None
    assert grown(made, 0, 15) is None  # between a missing point and a known one nothing is known
    assert grown(made, 10, 20) is None


def test_a_reset_while_the_value_was_missing_is_still_seen() -> None:
    assert grown(series((0, 0), (10, 50), (20, None), (30, 4)), 0, 30) == 54


def test_between_points_a_counter_grows_evenly() -> None:
    made = series((0, 0), (60, 30))
    assert grown(made, 0, 20) == pytest.approx(10)
    assert grown(made, 20, 50) == pytest.approx(15)


def test_beyond_the_newest_point_nothing_grows() -> None:
    """A silent exporter adds no busy time, and no observed time either: coverage falls."""
    made = series((0, 0), (60, 30))
    assert grown(made, 60, 600) == 0
    assert grown(made, 30, 600) == pytest.approx(15)


def test_what_accumulated_in_a_gap_arrives_with_the_next_point() -> None:
    assert grown(series((0, 0), (15, 15), (3600, 3600)), 0, 3600) == 3600


LONG_GAP = ((0, 0), (60, 60), (7260, 1260), (7320, 1320))
"""Two hours without a scrape, in which the counter grew by twenty minutes: when, nobody knows."""


@pytest.mark.parametrize(
    ("start", "whole", "known"),
    [
        (0, 1320, 1320),
        # It grew within the window, whenever that was.
        (60, 1260, 1260),
        # Within the gap it would be taken to have grown evenly.
        (61, 1320 - 60 - 1 / 6, 60),
        (5520, 60 + 290, 60),
        (7259, 60 + 1 / 6, 60),
        (7260, 60, 60),
        (7290, 30, 30),
    ],
)
def test_a_window_that_begins_in_a_long_gap_counts_from_its_end(start: float, whole: float, known: float) -> None:
    made = series(*LONG_GAP)
    assert made.increase(start, 7320)[0] == pytest.approx(whole)
    assert made.increase(start, 7320, longest_gap=105)[0] == pytest.approx(known)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(
    ("start", "began"),
    [
        (0.0, 5.0),  # grew by 15 s in the 20 s before its second point
        (10.0, 12.5),
        (20.0, 3020.0),  # stood still for 3,000 s
        (500.0, 3020.0),
        (3030.0, 3030.0),
        (3040.0, None),
    ],
)
def test_growth_begins_where_a_gap_ends(columns: bool, start: float, began: float | None) -> None:
    times, totals = [0.0, 20.0, 3020.0, 3040.0, 3060.0], [0.0, 15.0, 15.0, 35.0, 35.0]
    made = series(*zip(times, totals, strict=True))
    if columns:
        made = ColumnSeries(np.array(times), [np.array(totals)], [])
    assert made.grew_from(0, start, 3060.0) == began


def test_what_lies_wholly_in_a_long_gap_is_not_known() -> None:
    assert series(*LONG_GAP).increase(100, 6000, longest_gap=105) == (0,)


def test_before_the_first_point_there_is_no_gap() -> None:
    assert series(*LONG_GAP).increase(-1000, 60, longest_gap=105) == (60,)
    assert series((0, 5)).increase(-1000, 1000, longest_gap=1) == (0,)


@pytest.mark.parametrize("late", [10.0, 9.0, -5.0])
def test_a_point_that_is_not_newer_is_ignored(late: float) -> None:
    made = series((0, 0), (10, 10))
    made.append(late, (700,))
    assert (made.times, grown(made, 0, 20)) == ([0, 10], 10)
    made.append(20, (30,))
    assert grown(made, 0, 20) == 30


def test_an_empty_series_knows_nothing() -> None:
    assert Series(3).increase(0, 10) == (None, None, None)
    assert Series(1).gauge_last(0, 10) is None
    assert Series(1).gauge_max(0, 0, 10) is None


def test_gauges_of_a_window_are_those_read_after_its_start() -> None:
    made = Series(0)
    for t, value in ((0, 9.0), (10, 5.0), (20, None), (30, 7.0)):
        made.append(t, (), (value,))
    assert made.gauge_max(0, 0, 30) == 7
    assert made.gauge_max(0, -1, 30) == 9
    assert made.gauge_max(0, 10, 20) is None
    assert made.gauge_last(0, 29) == 5
    assert made.gauge_last(0, 1000) == 7
    assert made.gauge_last(0, -1) is None


def test_a_gauge_of_zero_is_a_value() -> None:
    made = Series(0)
    made.append(0, (), (4.0,))
    made.append(10, (), (0.0,))
    assert made.gauge_last(0, 10) == 0
    assert made.gauge_max(0, 5, 10) == 0


def test_forgetting_keeps_the_baseline_of_what_follows() -> None:
    made = series(*((t, float(t)) for t in range(0, 100, 10)))
    made.forget_before(35)
    assert made.times[0] == 30
    assert grown(made, 35, 90) == 55
    made.forget_before(1000)
    assert made.times == [90]
    assert grown(made, 0, 1000) == 0


def test_a_clock_that_was_set_back_leaves_what_lies_before_it_and_no_jump() -> None:
    made = series((0, 0), (10, 5), (20, 10), (30, 15))
    made.rewind(12)
    assert made.times == [0, 10]
    made.append(14, (17,))
    assert grown(made, 0, 10) == 5
    assert grown(made, 10, 14) == 2
    assert made.totals[-1] == (17,), "totals went on: who compares them loses nothing"


def test_a_clock_that_was_set_back_before_the_first_point_leaves_the_counters_alone() -> None:
    made = series((1000, 100), (1010, 130))
    made.rewind(500)
    assert (made.times, made.raw()) == ([500], (130,))
    made.append(510, (135,))
    assert grown(made, 0, 2000) == 5


def test_a_clock_that_was_set_back_to_after_the_newest_point_changes_nothing() -> None:
    made = series((0, 0), (10, 5))
    made.rewind(10)
    assert (made.times, made.totals) == ([0, 10], [(0,), (5,)])


def test_spacing_keeps_one_point_a_minute_and_the_newest() -> None:
    made = Series(1)
    for t in range(0, 601, 15):
        made.append(float(t), (float(t),), spacing=60)
    assert len(made.times) <= 600 / 60 + 2
    assert all(b - a >= 60 for a, b in zip(made.times[:-1], made.times[1:-1], strict=False))
    assert made.times[-1] == 600


# Whatever was scraped, at whatever distance, with whatever restarts.

Points = list[tuple[float, float | None]]


@st.composite
def scrapes(draw: st.DrawFn, *, missing: bool = False) -> Points:
    """Raw values of a counter that grows, restarts and, if wanted, is missing now and then."""
    points: Points = []
    t, raw = draw(st.floats(0, 1e9)), draw(st.floats(0, 1e6))
    for _ in range(draw(st.integers(1, 25))):
        points.append((t, None if missing and draw(st.booleans()) else raw))
        t += draw(st.floats(1, 1000))
        raw = draw(st.floats(0, 10)) if draw(st.integers(0, 4)) == 0 else raw + draw(st.floats(0, 500))
    return points


def truth(points: Points) -> float:
    """What the counter counted from its first known value to its last."""
    known = [raw for _, raw in points if raw is not None]
    return sum(b - a if b >= a else b for a, b in pairwise(known))


@given(scrapes())
def test_a_series_counts_what_its_counter_counted(points: Points) -> None:
    assert grown(series(*points), points[0][0], points[-1][0]) == pytest.approx(truth(points), rel=1e-9, abs=1e-6)


@given(scrapes(missing=True), st.lists(st.floats(-1e3, 1e9 + 3e4), min_size=3, max_size=3))
def test_increase_is_additive_and_never_negative(points: Points, instants: list[float]) -> None:
    made = series(*points)
    a, b, c = sorted(instants)
    totals = [total for (total,) in made.totals if total is not None]
    assert totals == sorted(totals), "`increase` itself cuts off below zero, and would hide a total that fell"
    first, second, whole = grown(made, a, b), grown(made, b, c), grown(made, a, c)
    if first is not None and second is not None:
        assert whole == pytest.approx(first + second, rel=1e-9, abs=1e-6)


@given(scrapes(), st.floats(0.1, 5000), st.floats(0, 1))
def test_spacing_loses_no_counts(points: Points, spacing: float, share: float) -> None:
    """Wherever fewer points leave the curve less exact, between two points that are kept it is the same."""
    exact, spaced = series(*points), Series(1)
    for t, raw in points:
        spaced.append(t, (raw,), spacing=spacing)
    assert grown(spaced, points[0][0], points[-1][0]) == pytest.approx(truth(points), rel=1e-9, abs=1e-6)
    kept = spaced.times[int(share * (len(spaced.times) - 1))]
    assert grown(spaced, kept, points[-1][0]) == pytest.approx(grown(exact, kept, points[-1][0]), rel=1e-9, abs=1e-6)


@given(scrapes(missing=True), st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_a_series_made_again_from_its_raw_values_says_the_same(points: Points, shares: list[float]) -> None:
    """What a store keeps (instant and raw values of each point) is enough."""
    made, kept = Series(1), []
    for t, raw in points:
        made.append(t, (raw,))
        kept.append((t, made.raw()[0]))
    assert kept == points
    again = series(*kept)
    span = points[-1][0] - points[0][0]
    a, b = sorted(points[0][0] + share * span for share in shares)
    assert again.increase(a, b) == made.increase(a, b)


@given(scrapes(missing=True), st.floats(0, 1))
def test_forgetting_changes_no_answer_about_what_is_kept(points: Points, share: float) -> None:
    made, shortened = series(*points), series(*points)
    since = points[0][0] + share * (points[-1][0] - points[0][0])
    shortened.forget_before(since)
    assert shortened.increase(since, points[-1][0]) == made.increase(since, points[-1][0])


@given(scrapes(missing=True), st.floats(-0.5, 1.5), scrapes(missing=True))
def test_a_clock_that_was_set_back_takes_and_invents_nothing(before: Points, share: float, after: Points) -> None:
    made = series(*before)
    until = before[0][0] + share * (before[-1][0] - before[0][0]) - 0.1
    kept = [t for t, _ in before if t <= until]
    within = [grown(made, kept[0], t) for t in kept]
    made.rewind(until)
    for t, raw in after:
        made.append(until + 1 + t - after[0][0], (raw,))
    for t, was in zip(kept, within, strict=True):
        now = grown(made, kept[0], t)
        assert now == (None if was is None else pytest.approx(was, rel=1e-9, abs=1e-6))
    assert made.times == sorted(made.times)
    totals = [total for (total,) in made.totals if total is not None]
    assert all(b - a >= -1e-6 for a, b in pairwise(totals))
    known = [raw for _, raw in (*before, *after) if raw is not None]
    if known and made.totals[-1][0] is not None:
        assert made.totals[-1][0] == pytest.approx(known[0] + truth([*before, *after]), rel=1e-9, abs=1e-6)


# What is known at an instant, for whoever must go on from there


@given(scrapes(missing=True), st.floats(-10, 1e9 + 3e4))
def test_what_is_known_at_an_instant_is_the_total_there_or_the_nearest_known(points: Points, t: float) -> None:
    made = series(*points)
    (exact,), (known,) = made.at(t), made.known_at(t)
    if exact is not None:
        assert known == exact
    else:
        before = [
            total for when, (total,) in zip(made.times, made.totals, strict=True) if when <= t and total is not None
        ]
        after = [
            total for when, (total,) in zip(made.times, made.totals, strict=True) if when > t and total is not None
        ]
        assert known == (before[-1] if before else after[0] if after else None)


def test_the_newest_reading_is_looked_up_and_not_searched_in_the_life_before() -> None:
    """A search takes quadratic time over the life of a gauge that was never read."""
    made = Series(0)
    for t, reading in ((0, None), (10, 5.0), (20, None)):
        made.append(t, (), (None, reading))
    made.gauges.clear()
    assert (made.gauge_last(0, 20), made.gauge_last(1, 20)) == (None, 5.0)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[float], list[list[float]], list[list[float | None]]]:
    """Times, two counters and two gauges by column; gauges may be missing at a point, or at all."""
    times = draw(st.lists(st.integers(0, 500), min_size=1, max_size=30, unique=True).map(sorted))
    grown = st.lists(st.integers(0, 9), min_size=len(times), max_size=len(times)).map(accumulate).map(list)
    readings = st.lists(st.none() | st.integers(0, 9), min_size=len(times), max_size=len(times))
    counters, gauges = [draw(grown), draw(grown)], [draw(readings), draw(readings)]
    return times, counters, gauges  # type: ignore[return-value]


@given(tables(), st.floats(-10, 510), st.floats(0, 300), st.sampled_from([inf, 20.0]))
def test_a_series_kept_by_column_answers_as_one_kept_by_point(
    table: tuple[list[float], list[list[float]], list[list[float | None]]], start: float, length: float, gap: float
) -> None:
    times, counters, gauges = table
    by_point, end = Series(2), start + length
    for t, totals, readings in zip(times, zip(*counters, strict=True), zip(*gauges, strict=True), strict=True):
        by_point.append(t, totals, readings)
    by_column = ColumnSeries(
        np.array(times, dtype=float),
        [np.array(column, dtype=float) for column in counters],
        [None if column == [None] * len(times) else np.array(column, dtype=float) for column in gauges],
    )
    assert by_column.at(end) == pytest.approx(by_point.at(end))
    assert by_column.increase(start, end, longest_gap=gap) == pytest.approx(
        by_point.increase(start, end, longest_gap=gap), abs=1e-9
    )
    for index in range(2):
        assert by_column.gauge_max(index, start, end) == by_point.gauge_max(index, start, end)
        assert by_column.gauge_between(index, start, end) == by_point.gauge_between(index, start, end)
        assert by_column.gauge_last(index, end) == by_point.gauge_last(index, end)
        assert by_column.gauge_at(index, 0) == by_point.gauge_at(index, 0)
