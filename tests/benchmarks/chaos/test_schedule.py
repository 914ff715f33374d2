"""A schedule is the same for the same seed, gives every kind its turn, and leaves calm times."""

from __future__ import annotations

from itertools import combinations

import pytest

from benchmarks.chaos.faults import FAULTS
from benchmarks.chaos.schedule import Plan, plan

HOUR, CALM = 3600.0, 95.0


def told(made: Plan) -> list[tuple[float, float, str, str]]:
    return [(one.at, one.until, one.fault.name, one.fault.what) for one in made.faults]


def test_it_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    assert told(plan(7, HOUR, CALM)) == told(plan(7, HOUR, CALM))
    assert told(plan(7, HOUR, CALM)) != told(plan(8, HOUR, CALM))


def test_an_hour_has_every_kind_of_fault() -> None:
    for seed in range(1, 6):
        assert {one.fault.name for one in plan(seed, HOUR, CALM).faults} == FAULTS.keys()


def test_faults_overlap_and_never_on_the_same_part() -> None:
    made = plan(1, HOUR, CALM)
    together = [(a, b) for a, b in combinations(made.faults, 2) if a.at < b.until and b.at < a.until]
    assert len(together) > 10
    for a, b in together:
        assert not a.fault.touches & b.fault.touches


def test_it_leaves_calm_times_and_the_last_one_is_at_the_end() -> None:
    made = plan(1, HOUR, CALM)
    assert max(one.until for one in made.faults) <= HOUR - CALM
    ends, gaps = 0.0, 0
    for one in made.faults:
        gaps += one.at - ends >= CALM
        ends = max(ends, one.until)
    assert gaps > 5


def test_one_kind_alone_can_be_had() -> None:
    made = plan(1, 600, CALM, only=frozenset({"leader-paused"}))
    assert {one.fault.name for one in made.faults} == {"leader-paused"}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_every_fault_says_what_it_is_and_whom_it_touches(name: str) -> None:
    import random

    fault = FAULTS[name].draw(random.Random(1))
    assert fault.name == name
    assert fault.sentence().endswith(".")
    assert fault.touches
    assert fault.lasts[0] <= fault.lasts[1]
