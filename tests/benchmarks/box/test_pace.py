"""When a run tells of the machine and not of what was played on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.box.nodes.protocol import Report
from benchmarks.box.pace import Pace, paced


def test_a_machine_that_kept_pace_spoils_nothing() -> None:
    assert Pace().reasons() == ()
    assert Pace(0.02, 0.02, 0.95, 0.02, 60.0).reasons() == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"passes_overdue": 0.036}, "passes were overdue for 3.6% of the time"),
        ({"scrapes_overdue": 0.021}, "scrapes were overdue for 2.1% of the time"),
        ({"passes_made": 218 / 390}, "56% of the passes were made"),
        ({"readings_late": 0.29}, "29% of the readings of NVML came late"),
        ({"job_late": 61.0}, "a job was late by 61 s"),
    ],
)
def test_each_way_of_being_late_is_named(change: dict[str, float], reason: str) -> None:
    assert replace(Pace(), **change).reasons() == (reason,)


def test_pace_is_that_of_the_slowest_process() -> None:
    reports = [Report(100, 1, {7: 12.0}), Report(10, 5), Report()]
    found = paced(passes=0.01, scrapes={"a": 0.03, "b": 0.01}, made=9, due=10, reports=reports)
    assert found == Pace(0.01, pytest.approx(0.02), 0.9, 0.5, 12.0)


def test_where_nothing_was_due_nothing_is_missing() -> None:
    assert paced(passes=0.0, scrapes={}, made=0, due=0, reports=()) == Pace()
