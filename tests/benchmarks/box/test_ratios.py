"""Shares with their intervals, and quantiles."""

from __future__ import annotations

import pytest

from benchmarks.box.scoring.ratios import Share, most, over_seeds, quantile, widest


def test_an_interval_over_runs_is_wider_where_runs_differ() -> None:
    assert over_seeds([Share(9, 10)] * 4) is None
    assert over_seeds([Share(9, 10)] * 10) == (0.9, 0.9)
    low, high = over_seeds([Share(10, 10)] * 5 + [Share(0, 10)] * 5) or (0, 0)
    assert low < 0.3 < 0.7 < high


def test_where_all_runs_agree_or_differ_the_wider_interval_counts() -> None:
    agree = widest(Share(100, 100), [Share(10, 10)] * 10)
    assert agree.interval == Share(100, 100).interval
    differ = widest(Share(50, 100), [Share(10, 10)] * 5 + [Share(0, 10)] * 5)
    assert differ.interval is not None
    assert differ.interval[0] < 0.3 < 0.7 < differ.interval[1]
    assert str(widest(Share(0, 0), [])) == "-"


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(10, 10, 0.7225, 1.0), (0, 10, 0.0, 0.2775), (81, 263, 0.2553, 0.3662), (1, 1, 0.2065, 1.0)],
)
def test_wilsons_interval(hits: int, of: int, low: float, high: float) -> None:
    """81 of 263 is Newcombe's example (Statistics in Medicine 1998)."""
    assert Share(hits, of).interval == pytest.approx((low, high), abs=1e-4)


def test_quantiles_are_values_that_occurred() -> None:
    assert quantile([3, 1, 2, 4], 0.5) == 2
    assert quantile([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0.9) == 9
    assert quantile([], 0.5) is None


@pytest.mark.parametrize(("count", "upper"), [(0, 2.9957), (1, 4.7439), (10, 16.9622)])
def test_how_many_rare_events_may_be_usual(count: int, upper: float) -> None:
    """Half of the chi-squared quantile at 95 % with 2 (n + 1) degrees of freedom."""
    assert most(count) == pytest.approx(upper, abs=1e-3)
