"""A slice with an exporter is compared with those without on either side of it."""

from __future__ import annotations

from statistics import median

import pytest

from benchmarks.gpu.overhead import CYCLE, DEFAULT, FAST, OFF, compare, middle

SLICES = (*CYCLE * 3, OFF)


def test_what_the_exporter_costs_is_found_beside_a_drift_that_is_larger():
    cost = {OFF: 0.0, DEFAULT: 0.001, FAST: 0.02}
    steps = [(each, [(0.02 + 0.001 * place) * (1 + cost[each])] * 5) for place, each in enumerate(SLICES)]
    assert compare(steps, DEFAULT) == [pytest.approx(0.001)] * 3
    assert compare(steps, FAST) == [pytest.approx(0.02)] * 3


def test_medians_do_not_see_a_step_that_something_else_held_up():
    steps = [(each, [0.02] * 9) for each in SLICES]
    steps[1] = (DEFAULT, [0.02] * 8 + [2.0])
    assert compare(steps, DEFAULT)[0] > 1
    assert compare(steps, DEFAULT, of=median) == [0.0] * 3
    assert middle(steps) == 0.02
