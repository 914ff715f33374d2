"""Each rule that stood over an incident answers for its own time, and each opening for itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.box.model import Condition, SeenIncident
from benchmarks.box.scoring import figures, score
from benchmarks.box.scoring.ratios import Share
from tests.benchmarks.box.scored import HOUR, JOB, condition, incident, observed, scenario, told, truth

MINUTE = 60.0
OPENED = JOB.start + 25 * MINUTE
STALLED = condition("stalled", 0.0, 2 * HOUR, causes=frozenset({"data loading"}))
IDLE_LATER = condition("idle", 4 * HOUR, 8 * HOUR)


def _renamed(at: float, rule: str, *, before: tuple = ()) -> SeenIncident:
    events = (told(OPENED, "opened", "stalled", "data loading"), *before, told(at, "primary changed", rule))
    return incident(OPENED, JOB.end, rule, told=events)


def _reopened(at: float, rule: str) -> SeenIncident:
    events = (told(OPENED, "opened", "stalled", "data loading"), told(OPENED + HOUR, "resolved"))
    return incident(OPENED, JOB.end, rule, told=(*events, told(at, "reopened", rule)))


CASES: dict[str, tuple[tuple[Condition, ...], SeenIncident, list[tuple[str, str]]]] = {
    "right from its opening on": ((STALLED,), incident(OPENED, rule="stalled"), [("stalled", "true")]),
    "renamed for what comes next": (
        (STALLED, IDLE_LATER),
        _renamed(JOB.start + 5 * HOUR, "idle"),
        [("stalled", "true"), ("idle", "true")],
    ),
    "renamed for what is not there": (
        (STALLED,),
        _renamed(JOB.start + HOUR, "hung"),
        [("stalled", "true"), ("hung", "other rule")],
    ),
    "renamed once all is well": (
        (STALLED,),
        _renamed(JOB.start + 5 * HOUR, "idle"),
        [("stalled", "true"), ("idle", "false")],
    ),
    "reopened for what comes next": (
        (STALLED, IDLE_LATER),
        _reopened(JOB.start + 5 * HOUR, "idle"),
        [("stalled", "true"), ("idle", "true")],
    ),
    "reopened under its rule once all is well": (
        (STALLED,),
        _reopened(JOB.start + 5 * HOUR, "stalled"),
        [("stalled", "true"), ("stalled", "false")],
    ),
    "opened for nothing, and renamed for something": (
        (IDLE_LATER,),
        _renamed(JOB.start + 5 * HOUR, "idle"),
        [("stalled", "false"), ("idle", "true")],
    ),
    "takes over, while it clears, from what it stood beside when it held": (
        (STALLED, condition("uneven", 0.0, HOUR, must=False)),
        _renamed(JOB.start + HOUR + 50 * MINUTE, "uneven", before=(told(OPENED + 60, "rule opened", "uneven"),)),
        [("stalled", "true"), ("uneven", "allowed")],
    ),
    "another cause is no other rule": (
        (STALLED,),
        incident(
            OPENED,
            rule="stalled",
            told=(told(OPENED, "opened", "stalled", "hang"), told(OPENED + 60, "cause found", "", "data loading")),
        ),
        [("stalled", "true")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_rule_is_judged_by_the_time_at_which_it_began_to_stand_over_an_incident(case: str) -> None:
    conditions, seen, expected = CASES[case]
    found = score(scenario([JOB]), {1: truth(JOB, *conditions)}, observed([seen]))
    assert [(one.rule, one.outcome) for one in found.standings] == expected
    assert [one.first for one in found.standings] == [True] + [False] * (len(expected) - 1)
    hits = sum(outcome in ("true", "allowed") for _, outcome in expected)
    assert figures.precision(found) == Share(hits, len(expected))


def test_a_wrong_rule_is_not_credited_with_what_the_incident_was_before() -> None:
    """The incident as a whole is right, by what it first opened in; the rule that it had last is not."""
    conditions, seen, _ = CASES["renamed for what is not there"]
    found = score(scenario([JOB]), {1: truth(JOB, *conditions)}, observed([seen]))
    assert figures.precision_of_incidents(found) == Share(1, 1)
    assert figures.precision(figures.of_rule(found, "hung")) == Share(0, 1)
    assert figures.precision(figures.of_rule(found, "stalled")) == Share(1, 1)


def test_what_is_said_of_a_job_that_nobody_played_is_false_each_time() -> None:
    stray = replace(_reopened(JOB.start + 5 * HOUR, "idle"), workload="slurm/99")
    found = score(scenario([JOB]), {1: truth(JOB)}, observed([stray]))
    assert [one.outcome for one in found.standings] == ["false", "false"]
