"""Patterns and timelines are exact: busy time is the integral of a level that is constant between edges."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.nvml.patterns import FULL, IDLE, Curve, Level, Paused, Piecewise, Steps, Then, ramp
from tests.fakes.nvml.timeline import Load, Run, Timeline

fractions = st.floats(0, 1)
lengths = st.floats(0.1, 500)


@st.composite
def piecewise(draw):
    pieces = draw(st.lists(lengths, max_size=5))
    until = [sum(pieces[: i + 1]) for i in range(len(pieces))]
    return Piecewise(until, draw(st.lists(fractions, min_size=len(until) + 1, max_size=len(until) + 1)))


simple = st.one_of(
    st.builds(Level, fractions),
    st.builds(Steps, lengths, fractions, st.floats(0, 100)),
    piecewise(),
)
patterns = st.recursive(
    simple,
    lambda inner: st.one_of(st.builds(Paused, inner, lengths, lengths), st.builds(Then, inner, lengths, inner)),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("pattern", "at", "busy"),
    [
        (Level(0.12), 100, 12),
        (IDLE, 100, 0),
        (FULL, 100, 100),
        (Steps(2, 0.5), 0.5, 0.5),
        (Steps(2, 0.5), 1.7, 1),
        (Steps(2, 0.5), 10, 5),
        (Steps(2, 0.5, offset=1), 1, 0),
        (Steps(2, 0.5, offset=1), 2, 1),
        (Paused(FULL, every=600, length=60), 630, 600),
        (Paused(FULL, every=600, length=60), 1320, 1200),
        (Paused(Steps(2, 0.5), every=600, length=60), 1320, 600),
        (Piecewise([10, 30], [0, 0.5, 1]), 40, 20),
        (Then(Level(0.1), 100, Level(0.9)), 200, 100),
        (ramp(0, 1, 100), 100, 50),
        (ramp(0, 1, 100), 200, 150),
    ],
)
def test_busy_seconds_of_each_mechanism(pattern, at, busy):
    assert pattern.busy(at) == pytest.approx(busy)


@given(patterns, st.floats(0, 2000), st.floats(0, 50))
def test_busy_time_never_decreases_nor_outruns_time(pattern, start, length):
    busy = pattern.busy(start + length) - pattern.busy(start)
    assert -1e-6 <= busy <= length + 1e-6


@given(patterns, st.floats(0, 2000), st.floats(0.01, 20))
def test_level_is_constant_between_edges(pattern, start, length):
    edges = list(pattern.edges(start, start + length))
    assert edges == sorted(edges)
    assert all(start < edge < start + length for edge in edges)
    for a, b in pairwise([start, *edges, start + length]):
        middle = pattern.busy((a + b) / 2)
        assert middle == pytest.approx((pattern.busy(a) + pattern.busy(b)) / 2, abs=1e-6)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Level(1.1),
        lambda: Steps(0, 0.5),
        lambda: Steps(1, -0.1),
        lambda: Piecewise([1], [0.5]),
        lambda: Piecewise([2, 1], [0, 0, 0]),
        lambda: Piecewise([1], [0.5, 2]),
    ],
)
def test_impossible_patterns_are_refused(build):
    with pytest.raises(ValueError, match=r"."):
        build()


def test_a_curve_may_have_any_values():
    curve = Curve([10], [300.0, 70.0])
    assert (curve.at(0), curve.at(10), curve.integral(20)) == (300.0, 70.0, 3700.0)


@given(st.lists(patterns, min_size=1, max_size=3), st.floats(0.5, 60), st.floats(0.001, 2))
def test_jobs_share_a_gpu_and_never_get_more_than_it_has(job_patterns, time_scale, seconds):
    start_us = 1_750_000_000_000_000
    timeline = Timeline(time_scale)
    timeline.runs += [Run(f"job{i}", Load(pattern), start_us) for i, pattern in enumerate(job_patterns)]
    end_us = start_us + round(seconds * 1e6)
    by_job = timeline.busy_by_run(start_us, end_us)
    assert all(busy >= -1e-9 for _, busy in by_job)
    assert math.fsum(busy for _, busy in by_job) <= (end_us - start_us) / 1e6 + 1e-6
    for run, busy in by_job:
        alone = run.load.pattern.busy((end_us - start_us) / 1e6 * time_scale) / time_scale
        assert busy <= alone + 1e-6


def test_overlapping_jobs_split_what_they_both_want():
    timeline = Timeline(1)
    timeline.runs += [
        Run("steady", Load(FULL), 0),
        Run("steps", Load(Steps(2, 0.5)), 0),
    ]
    assert timeline.busy_seconds(0, 10_000_000) == pytest.approx(10)
    assert timeline.busy_seconds(0, 10_000_000, "steady") == pytest.approx(7.5)
    assert timeline.busy_seconds(0, 10_000_000, "steps") == pytest.approx(2.5)


def test_a_run_counts_from_its_start_to_its_end():
    timeline = Timeline(10)
    timeline.runs.append(Run("short", Load(FULL), 1_000_000, 3_000_000))
    assert timeline.busy_seconds(0, 10_000_000) == pytest.approx(2)
    assert timeline.busy_seconds(2_000_000, 10_000_000) == pytest.approx(1)
    assert timeline.present(2_999_999) == timeline.runs
    assert timeline.present(3_000_000) == []
