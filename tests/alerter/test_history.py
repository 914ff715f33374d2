"""Counters over time: what accumulated is never lost, never doubled and never invented."""

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.history import (
    GPU_COUNTERS,
    GPU_GAUGES,
    Series,
    gpu_usage,
    host_usage,
    memory_grew_at,
    window_evidence,
)

GIB = 2.0**30


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


# What one GPU did


def gpu_series(
    *points: tuple[float, float, float], gauges: Sequence[tuple[float | None, ...]] | None = None, **counters: float
) -> Series:
    """A GPU's series from (t, observed, busy); allocated is as observed, other counters grow by a rate."""
    made = Series(len(GPU_COUNTERS))
    for i, (t, observed, busy) in enumerate(points):
        values = {"allocated": observed, "observed": observed, "busy": busy}
        values |= {name: rate * t for name, rate in counters.items()}
        row = (1.0, None, None, None, None) if gauges is None else gauges[i]
        made.append(t, tuple(values.get(name) for name in GPU_COUNTERS), row)
    return made


def test_gpu_usage_names_every_counter() -> None:
    rates = {"gap_lt2": 0.1, "gap_2to30": 0.2, "gap_30to600": 0.3, "gap_ge600": 0.4, "energy": 300.0}
    rates |= {"sm": 0.5, "tensor": 0.3, "dram": 0.2, "throttle_thermal": 0.06, "throttle_power": 0.7, "link_bytes": 1e9}
    made = gpu_series(
        (0, 0, 0), (100, 90, 45), gauges=[(0.5, 1.0, 8.0, 2.0, 700.0), (0.5, 4.0, 8.0, 1.0, 650.0)], **rates
    )
    usage = gpu_usage(made, 0, 100, idle_power=65)
    assert (usage.allocated, usage.observed, usage.busy) == (90, 90, 45)
    gaps = (usage.gap_lt2, usage.gap_2to30, usage.gap_30to600, usage.gap_ge600)
    assert gaps == pytest.approx((10, 20, 30, 40))
    assert usage.energy == pytest.approx(30_000)
    assert (usage.share, usage.memory_used, usage.memory_total, usage.processes) == (0.5, 4, 8, 1)
    assert (usage.sm, usage.tensor, usage.dram) == pytest.approx((50, 30, 20))
    assert (usage.throttle_thermal, usage.throttle_power, usage.link_bytes) == pytest.approx((6, 70, 1e11))
    assert (usage.power_limit, usage.idle_power) == (650, 65)


def test_time_without_a_duty_cycle_is_not_observed() -> None:
    """Observed seconds whose busy seconds are missing would read as idle."""
    made = Series(len(GPU_COUNTERS))
    for t, busy in ((0.0, 0.0), (100.0, None)):
        made.append(t, (t, t, busy, *[None] * (len(GPU_COUNTERS) - 3)), (1.0, *[None] * (len(GPU_GAUGES) - 1)))
    usage = gpu_usage(made, 0, 100)
    assert (usage.observed, usage.busy, usage.utilization) == (0, 0, None)
    assert usage.allocated == 100


def test_a_window_has_one_usage_per_gpu_in_order_over_its_length() -> None:
    busy, idle = gpu_series((0, 0, 0), (1000, 1000, 1000)), gpu_series((0, 0, 0), (1000, 1000, 0))
    found = window_evidence([busy, idle], [], at=1000, length=400)
    assert found.length == 400
    assert [usage.utilization for usage in found.gpus] == [1, 0]
    assert [usage.observed for usage in found.gpus] == pytest.approx([400, 400])


# Hosts


def host_series(
    cores: float | None,
    *,
    limit: float | None = None,
    io: float | None = None,
    cpu: float | None = None,
    end: float = 100,
) -> Series:
    """A node where the job uses this many cores and waits for these shares of time."""
    made = Series(3)
    for t in (0.0, end):
        made.append(t, tuple(None if rate is None else rate * t for rate in (cores, io, cpu)), (limit,))
    return made


def test_cores_are_summed_and_ratios_are_those_of_the_worst_node() -> None:
    nodes = [host_series(6, limit=8, io=0.1, cpu=0.5), host_series(3, limit=3, io=0.4, cpu=0.2)]
    for order in (nodes, nodes[::-1]):
        found = host_usage(order, 0, 100)
        assert found.cpu_cores == pytest.approx(9)
        assert found.cpu_of_limit == pytest.approx(1.0)
        assert found.io_pressure == pytest.approx(0.4)
        assert found.cpu_pressure == pytest.approx(0.5)


def test_what_no_node_reports_is_missing() -> None:
    found = host_usage([], 0, 100)
    assert (found.cpu_cores, found.cpu_of_limit, found.io_pressure, found.cpu_pressure) == (None,) * 4
    found = host_usage([host_series(2, limit=None, io=0.0)], 0, 100)
    assert (found.cpu_cores, found.cpu_of_limit, found.io_pressure, found.cpu_pressure) == (2, None, 0, None)


def test_a_node_that_reports_only_part_of_a_window_is_rated_over_that_part() -> None:
    assert host_usage([host_series(4, limit=8, end=50)], 0, 100).cpu_cores == pytest.approx(4)
    assert host_usage([host_series(4, limit=8, end=50)], 25, 100).cpu_of_limit == pytest.approx(0.5)


def test_a_node_that_is_silent_over_the_window_says_nothing() -> None:
    assert host_usage([host_series(4, limit=8, io=1, cpu=1, end=50)], 50, 100).cpu_cores is None
    assert host_usage([None], 0, 100).cpu_cores is None


@pytest.mark.parametrize(
    "silent",
    [None, Series(3), host_series(None, io=0.1), host_series(4, end=50)],
    ids=["never seen", "nothing yet", "no CPU", "silent now"],
)
def test_of_nodes_of_which_one_is_not_known_the_cores_of_the_others_are_not_the_jobs(silent: Series | None) -> None:
    for order in ([host_series(6, limit=8, io=0.4), silent], [silent, host_series(6, limit=8, io=0.4)]):
        found = host_usage(order, 60, 100)
        assert (found.cpu_cores, found.cpu_of_limit, found.io_pressure) == (None, 0.75, 0.4)


@given(st.lists(st.tuples(st.floats(0, 200), st.floats(1, 200), st.floats(0, 1)), max_size=5))
def test_the_order_of_nodes_does_not_matter(nodes: list[tuple[float, float, float]]) -> None:
    made = [host_series(cores, limit=limit, io=share) for cores, limit, share in nodes]
    one, other = host_usage(made, 0, 100), host_usage(made[::-1], 0, 100)
    assert one.cpu_of_limit == other.cpu_of_limit
    assert one.io_pressure == other.io_pressure
    assert (one.cpu_cores is None) == (other.cpu_cores is None)
    assert math.isclose(one.cpu_cores or 0, other.cpu_cores or 0)


# Loading


@pytest.mark.parametrize(
    ("memory", "grew"),
    [
        # Nothing is known of memory: no answer.
        ([None, None, None], None),
        # The first reading is where we came in, not growth.
        ([40, 40, 40], 0),
        ([None, 40, 40], 0),
        # Each new high counts, the last is the answer.
        ([1, 20, 20], 20),
        ([1, 20, 40], 30),
        # 2 % of the device's 80 GiB is 1.6 GiB: less is a running job's noise.
        ([40, 41.5, 40.1], 0),
        ([40, 41.7, 40.1], 20),
        # Slow growth adds up.
        ([40, 41, 42], 30),
        # Freed and taken again is not a new high.
        ([40, 10, 40], 0),
        # A missing reading between is no fall.
        ([1, None, 20], 30),
    ],
)
def test_when_memory_last_grew(memory: list[float | None], grew: float | None) -> None:
    gauges = [(1.0, None if used is None else used * GIB, 80 * GIB, 1.0) for used in memory]
    made = gpu_series((10, 0, 0), (20, 0, 0), (30, 0, 0), gauges=gauges)
    assert memory_grew_at([made], 0, 100) == grew


def test_the_gpu_that_grew_last_decides() -> None:
    def loading(*used: float) -> Series:
        return gpu_series(
            (10, 0, 0), (20, 0, 0), (30, 0, 0), gauges=[(1.0, each * GIB, 80 * GIB, 1.0) for each in used]
        )

    gpus = [loading(1, 30, 30), loading(1, 1, 30), loading(1, 1, 1)]
    assert memory_grew_at(gpus, 0, 100) == memory_grew_at(gpus[::-1], 0, 100) == 30
    assert memory_grew_at(gpus, 0, 25) == 20


def test_without_the_devices_size_growth_is_measured_against_the_job_itself() -> None:
    made = gpu_series((10, 0, 0), (20, 0, 0), gauges=[(1.0, 100.0, None, 1.0), (1.0, 103.0, None, 1.0)])
    assert memory_grew_at([made], 0, 100) == 20


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
