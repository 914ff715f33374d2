"""Which incident is for which condition, and what an incident's story is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.box.model import Condition, Job, SeenIncident
from benchmarks.box.scoring import Score, figures
from benchmarks.box.scoring.jobs import case_of, judge_job
from benchmarks.box.scoring.ratios import Share
from benchmarks.box.scoring.story import story
from tests.benchmarks.box.scored import HOUR, JOB, LENGTH, condition, incident, job, told, truth

MINUTE = 60.0
EARLIEST = JOB.start + 40 * MINUTE
"""When `idle` can open for a condition from the beginning of the job on."""


def judged(conditions: tuple[Condition, ...], incidents: tuple[SeenIncident, ...], of: Job = JOB, end: float = LENGTH):
    found = judge_job(case_of(of, 7), of, truth(of, *conditions), incidents, (), end=end)
    return found.conditions, found.incidents


STALLED = condition("stalled", 0.0, HOUR, causes=frozenset({"data loading"}))
IDLE_LATER = condition("idle", 4 * HOUR, 8 * HOUR)
MAY = condition("uneven", 0.0, 8 * HOUR, must=False)
EARLY = condition("idle", 0.0, HOUR, must=False, early="too short")
SILENT = condition("stalled", 0.0, 8 * HOUR, must=False, silent="gaps are too short")

CASES = {
    # conditions, incident -> (its outcome, under its own rule), (found, named) of each condition
    "told in time": ((condition(),), incident(EARLIEST), ("true", True), [(True, True)]),
    "told under another rule": (
        (condition(),),
        incident(EARLIEST, rule="underused"),
        ("other rule", False),
        [(True, False)],
    ),
    "told beside another rule": (
        (condition(),),
        incident(EARLIEST, rule="hung", contributing=("hung", "idle")),
        ("other rule", False),
        [(True, False)],
    ),
    "told under a rule that stands beside its own": (
        (STALLED,),
        incident(JOB.start + 40 * MINUTE, rule="underused"),
        ("true", False),
        [(True, False)],
    ),
    "another rule opened within the window after the end": (
        (STALLED,),
        incident(JOB.start + 74 * MINUTE, rule="uneven"),
        ("false", False),
        [(False, False)],
    ),
    "opened under another rule, and never under one for what it opened in": (
        (STALLED, IDLE_LATER),
        incident(
            JOB.start + 25 * MINUTE,
            told=(
                told(JOB.start + 25 * MINUTE, "opened", "uneven"),
                told(JOB.start + 5 * HOUR, "primary changed", "idle", "no process"),
            ),
        ),
        ("other rule", True),
        [(True, False), (True, True)],
    ),
    "over before a rule is asked": (
        (EARLY,),
        incident(EARLIEST, rule="idle"),
        ("allowed", True),
        [(True, True)],
    ),
    "nothing was wrong": ((), incident(EARLIEST), ("false", False), []),
    "opened before anything was wrong, and lasts on under another rule": (
        (IDLE_LATER,),
        incident(JOB.start + HOUR, rule="uneven"),
        ("false", False),
        [(False, False)],
    ),
    "opened before anything was wrong, and is renamed when it is": (
        (IDLE_LATER,),
        incident(
            JOB.start + HOUR,
            told=(
                told(JOB.start + HOUR, "opened", "uneven"),
                told(JOB.start + 5 * HOUR, "primary changed", "idle", "no process"),
            ),
        ),
        ("false", False),
        [(True, True)],
    ),
    "the first problem's incident only lasts on into the second": (
        (STALLED, IDLE_LATER),
        incident(JOB.start + 25 * MINUTE, rule="stalled", causes=("data loading",)),
        ("true", True),
        [(True, True), (False, False)],
    ),
    "the first problem's incident becomes the second's": (
        (STALLED, IDLE_LATER),
        incident(
            JOB.start + 25 * MINUTE,
            told=(
                told(JOB.start + 25 * MINUTE, "opened", "stalled", "data loading"),
                told(JOB.start + 5 * HOUR, "primary changed", "idle", "no process"),
            ),
        ),
        ("true", True),
        [(True, True), (True, True)],
    ),
    "reopened for the second problem": (
        (STALLED, IDLE_LATER),
        incident(
            JOB.start + 25 * MINUTE,
            told=(
                told(JOB.start + 25 * MINUTE, "opened", "stalled", "data loading"),
                told(JOB.start + 70 * MINUTE, "resolved"),
                told(JOB.start + 5 * HOUR, "reopened", "idle", "no process"),
            ),
        ),
        ("true", True),
        [(True, True), (True, True)],
    ),
    "opened within the window after the end": (
        (STALLED,),
        incident(JOB.start + 74 * MINUTE, rule="stalled"),
        ("true", True),
        [(True, True)],
    ),
    "opened while what is over clears": (
        (STALLED,),
        incident(JOB.start + 85 * MINUTE, rule="stalled"),
        ("false", False),
        [(False, False)],
    ),
    "opened long after the end": (
        (STALLED,),
        incident(JOB.start + 3 * HOUR, rule="stalled"),
        ("false", False),
        [(False, False)],
    ),
    "about what may be told": ((MAY,), incident(EARLIEST, rule="uneven"), ("allowed", True), [(True, True)]),
    "about what no signal tells, all the same": (
        (SILENT,),
        incident(EARLIEST, rule="stalled"),
        ("allowed", True),
        [(True, True)],
    ),
    "one of two conditions at once": (
        (condition(), MAY),
        incident(EARLIEST),
        ("true", True),
        [(True, True), (True, False)],
    ),
    "a report, of which the truth says nothing": (
        (condition(),),
        incident(JOB.end, rule="overallocated", kind="report"),
        ("unjudged", False),
        [(False, False)],
    ),
    "a report that the truth has": (
        (condition("overallocated"),),
        incident(JOB.end + MINUTE, rule="overallocated", kind="report"),
        ("true", True),
        [(True, True)],
    ),
    "a report of which the truth says that it is wrong": (
        (condition(),),
        incident(JOB.end, rule="memory_underused", kind="report", severity="info"),
        ("false", False),
        [(False, False)],
    ),
    "information": ((), incident(EARLIEST, severity="info"), ("unjudged", False), []),
}


@pytest.mark.parametrize("case", CASES)
def test_an_incident_and_what_it_is_about(case: str) -> None:
    conditions, seen, (outcome, own_rule), found = CASES[case]
    told_of, records = judged(conditions, (seen,))
    assert [(record.outcome, record.named) for record in records] == [(outcome, own_rule)]
    assert [(record.found, record.named) for record in told_of] == found


def test_the_delay_counts_from_when_the_rule_could_first_open() -> None:
    (told_of,), _ = judged((condition(),), (incident(EARLIEST + 90),))
    assert told_of.delay == pytest.approx(90)


def test_the_delay_of_a_later_condition_counts_from_its_own_beginning() -> None:
    (told_of,), _ = judged((IDLE_LATER,), (incident(JOB.start + 4 * HOUR + 32 * MINUTE),))
    assert told_of.delay == pytest.approx(2 * MINUTE)


def test_interactive_and_serving_jobs_have_times_of_their_own() -> None:
    for partition, minutes in (("interactive", 90), ("serving", 24 * 60 + 10)):
        long = job(partition=partition, end=40 * HOUR)
        seen = incident(long.start + minutes * MINUTE, job=long)
        ((told_of,), _) = judged((condition(until=39 * HOUR),), (seen,), long, 48 * HOUR)
        assert told_of.delay == 0, partition


def test_what_the_end_of_the_run_cut_off_is_not_missed() -> None:
    late = job(start=LENGTH - 43 * MINUTE, end=LENGTH + HOUR)
    (cut,), _ = judged((condition(),), (), late)
    assert cut.expected == "cut"
    (must,), _ = judged((condition(),), (), job(start=LENGTH - HOUR, end=LENGTH))
    assert must.expected == "must"


@pytest.mark.parametrize(
    ("causes", "verdict"),
    [
        (("data loading",), "right"),
        (("hang",), "wrong"),
        (("hang", "data loading"), "among"),
        (("hang", "no process"), "not among"),
        ((), ""),
    ],
)
def test_a_cause_is_right_wrong_or_among_several(causes: tuple[str, ...], verdict: str) -> None:
    _, (seen,) = judged((STALLED,), (incident(JOB.start + 30 * MINUTE, rule="stalled", causes=causes),))
    assert seen.cause == verdict


def test_the_last_cause_is_compared_with_the_problem_it_was_named_for() -> None:
    seen = incident(
        JOB.start + 25 * MINUTE,
        told=(
            told(JOB.start + 25 * MINUTE, "opened", "stalled", "data loading"),
            told(JOB.start + 5 * HOUR, "primary changed", "idle", "data loading"),
        ),
    )
    _, (record,) = judged((STALLED, IDLE_LATER), (seen,))
    assert record.cause == "wrong", "loading is not why nothing runs"


def test_the_first_word_and_the_last_on_the_cause_are_judged_apart() -> None:
    opened = JOB.start + 25 * MINUTE
    events = (told(opened, "opened", "stalled", "hang"), told(opened + 600, "cause found", "", "data loading"))
    _, (seen,) = judged((STALLED,), (incident(opened, rule="stalled", causes=("data loading",), told=events),))
    assert (seen.first_cause, seen.cause) == ("wrong", "right")


def test_of_two_causes_only_the_greater_is_the_main_one() -> None:
    both = condition(
        "stalled", 0.0, HOUR, causes=frozenset({"data loading", "throttling"}), main=frozenset({"throttling"})
    )
    _, (seen,) = judged((both,), (incident(JOB.start + 25 * MINUTE, rule="stalled", causes=("data loading",)),))
    assert (seen.cause, seen.main_cause) == ("right", "wrong")


def test_a_rule_that_was_told_of_something_before_has_not_told_of_what_comes_later() -> None:
    """That it ever was in the story counts only where nothing was kept of when rules joined and left."""
    opened = JOB.start + 25 * MINUTE
    events = (told(opened, "opened", "idle"), told(opened + 600, "primary changed", "stalled"))
    known = incident(opened, rule="stalled", contributing=("idle", "stalled"), told=events)
    joined = incident(
        opened,
        rule="stalled",
        contributing=("idle", "stalled"),
        told=(told(opened, "opened", "stalled"), told(opened + 60, "rule opened", "idle")),
    )
    for seen in (known, joined):
        _, later = judged((STALLED, IDLE_LATER), (seen,))[0]
        assert (later.found, later.beside) == (False, False)
    unknown = incident(opened, rule="stalled", contributing=("idle", "stalled"))
    _, later = judged((STALLED, IDLE_LATER), (unknown,))[0]
    assert (later.found, later.named, later.beside) == (True, False, True)


def test_another_rules_word_is_no_time_to_detect() -> None:
    (told_of,), _ = judged((condition(),), (incident(EARLIEST - 600, rule="underused"), incident(EARLIEST + 90)))
    assert (told_of.delay, told_of.first_word) == (90, -600)


def test_a_story_counts_what_changed() -> None:
    found = story(
        incident(
            0,
            900,
            told=(
                told(0, "opened", "stalled", "hang", "data loading"),
                told(100, "cause found", "", "data loading"),
                told(200, "rule opened", "uneven"),
                told(300, "primary changed", "uneven", "communication or straggler"),
                told(400, "resolved"),
                told(500, "reopened", "uneven"),
                told(900, "resolved"),
            ),
        ),
        end=1000,
    )
    assert [(span.start, span.end, span.rule) for span in found.spans] == [
        (0, 100, "stalled"),
        (100, 300, "stalled"),
        (300, 400, "uneven"),
        (500, 900, "uneven"),
    ]
    assert (found.reopened, found.reclassified, found.recaused) == (1, 1, 1)
    assert found.joined == ((200, "uneven"),)


def test_an_incident_without_a_story_is_what_it_says_of_itself() -> None:
    found = story(incident(10, rule="hung", causes=("hang",)), end=50)
    assert [(span.start, span.end, span.rule, span.causes) for span in found.spans] == [(10, 50, "hung", ("hang",))]
    assert found.openings == (10,)


def test_what_need_not_be_told_is_known_by_its_reason() -> None:
    spins = condition("uneven", must=False, unruled="ranks spin")
    exempt = condition("stalled", must=False, by_table=True)
    told_of, _ = judged((SILENT, spins, EARLY, MAY, exempt), ())
    assert [one.expected for one in told_of] == ["no signal", "no rule", "early", "may", "may"]
    assert [one.reason for one in told_of] == ["gaps are too short", "ranks spin", "too short", "", ""]
    found = Score(conditions=(*told_of, *judged((condition(),), (incident(EARLIEST),))[0]))
    assert figures.recall(found) == Share(1, 1)
    assert figures.recall_with_unruled(found) == Share(1, 2)
    assert figures.recall_by_table(found) == Share(1, 2)


def test_reports_are_judged_apart_from_what_is_wrong_with_jobs() -> None:
    one = replace(truth(JOB), reports=(condition("memory_underused"),))
    seen = incident(JOB.end + MINUTE, rule="memory_underused", kind="report", severity="info")
    for told_it in (True, False):
        found = judge_job(case_of(JOB, 7), JOB, one, (seen,) if told_it else (), (), end=LENGTH)
        assert figures.recall(figures.reports(found)) == Share(int(told_it), 1)
        assert not figures.efficiency(found).conditions
