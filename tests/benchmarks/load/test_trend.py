"""A trend is the slope of what is read, whatever peaks there are; noise about a level is none."""

from __future__ import annotations

import random

import pytest

from benchmarks.load.trend import medians, trend


def test_a_straight_line_has_its_slope() -> None:
    found = trend([0, 1, 2, 3, 4, 5], [10, 12, 14, 16, 18, 20])
    assert (found.slope, found.low, found.high) == (2, 2, 2)
    assert found.rises


def test_a_level_does_not_rise() -> None:
    found = trend(range(18), [30.0] * 18)
    assert (found.slope, found.rises) == (0, False)


def test_a_peak_moves_nothing() -> None:
    values = [30.0] * 18
    values[9] = 300.0
    assert trend(range(18), values).slope == 0
    growing = [30.0 + hour for hour in range(18)]
    growing[9] = 300.0
    assert trend(range(18), growing).slope == pytest.approx(1)


def test_times_need_no_order() -> None:
    assert trend([3, 1, 2], [6, 2, 4]).slope == 2


def test_the_interval_holds_the_slope_as_often_as_it_says() -> None:
    """Of 400 series of 18 readings with noise: 95 % by definition, the binomial's fifth standard deviation below."""
    rng, held = random.Random(1), 0
    for _ in range(400):
        found = trend(range(18), [0.3 * hour + rng.gauss(0, 5) for hour in range(18)])
        held += found.low <= 0.3 <= found.high
    assert held >= 400 * 0.95 - 5 * (400 * 0.95 * 0.05) ** 0.5
    assert held < 400


@pytest.mark.parametrize(("times", "values"), [([0, 1], [1, 2]), ([0, 0, 1], [1, 2, 3]), ([0, 1, 2], [1, 2])])
def test_too_little_is_refused(times: list[float], values: list[float]) -> None:
    with pytest.raises(ValueError, match="readings"):
        trend(times, values)


def test_spans_without_readings_are_left_out() -> None:
    assert medians([0.1, 0.2, 0.3, 2.5], [1, 9, 2, 4], 1.0) == ([0.5, 2.5], [2, 4])
