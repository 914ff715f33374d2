"""A slice with readings is compared with those without on either side of it."""

from __future__ import annotations

import pytest

from benchmarks.gpu.overhead import compare, middle, told, verdict

SLICES = 7


def test_what_the_exporter_costs_is_found_beside_a_drift_that_is_larger():
    steps = [[(0.02 + 0.001 * place) * (1.001 if place % 2 else 1)] * 5 for place in range(SLICES)]
    assert compare(steps) == [pytest.approx(0.001)] * 3


def test_a_median_does_not_see_a_slice_that_something_else_held_up():
    steps = [[0.02] * 9 for _ in range(SLICES)]
    steps[1] = [0.02] * 8 + [2.0]
    assert compare(steps)[0] > 1
    assert "median +0.000 %" in told(steps)
    assert middle(steps) == 0.02


@pytest.mark.parametrize(
    ("mean", "error", "said"),
    [
        (0.0002, 0.0003, "met even by all of them"),
        (0.0006, 0.0003, "not told by this"),
        (0.0015, 0.0003, "not told by this"),
        (0.0015, 0.0002, "missed by all of them"),
    ],
)
def test_the_aim_is_met_or_missed_by_two_standard_errors(mean, error, said):
    assert verdict(mean, error) == said
