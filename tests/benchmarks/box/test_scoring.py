"""A score as a whole: all is counted once, scores add up, and what an ideal and a mute observer get."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.box.model import Condition, SeenIncident
from benchmarks.box.rules import WINDOW
from benchmarks.box.scoring import Score, figures, rows, score, tables
from benchmarks.box.sinks import named
from tests.benchmarks.box.scored import (
    HOUR,
    LENGTH,
    condition,
    fleet,
    incident,
    job,
    message,
    observed,
    perfect,
    scenario,
    told,
    truth,
)

RULES = st.sampled_from(sorted(set(WINDOW) - {"leaked_memory", "throttled"}))
CAUSES = st.lists(st.sampled_from(["hang", "data loading", "no process"]), max_size=3, unique=True).map(tuple)
TIMES = st.floats(0, LENGTH, allow_nan=False).map(round).map(float)


@st.composite
def _conditions(draw: st.DrawFn) -> Condition:
    since, until = sorted((draw(st.floats(0, 8 * HOUR)), draw(st.floats(0, 8 * HOUR))))
    must = draw(st.booleans())
    silent, unruled = ("", "") if must else draw(st.sampled_from([("", ""), ("no GPM", ""), ("", "spins")]))
    causes = frozenset(draw(CAUSES))
    step = draw(st.sampled_from([None, 0.5, 10.0, 60.0]))
    return Condition(draw(RULES), causes, since, until, must, silent, step, unruled=unruled, by_table=must)


@st.composite
def _incidents(draw: st.DrawFn) -> SeenIncident:
    opened = draw(TIMES)
    events = draw(
        st.lists(
            st.tuples(
                TIMES,
                st.sampled_from(["primary changed", "resolved", "reopened", "rule opened", "cause found"]),
                RULES,
                CAUSES,
            ),
            max_size=5,
        )
    )
    story = tuple(
        sorted((told(max(at, opened), kind, rule, *causes) for at, kind, rule, causes in events), key=lambda e: e.at)
    )
    return incident(
        opened,
        draw(st.none() | st.floats(opened, LENGTH)),
        draw(RULES),
        draw(CAUSES),
        job=job(draw(st.integers(1, 4))),
        told=(told(opened, "opened", draw(RULES)), *story) if draw(st.booleans()) else (),
        kind=draw(st.sampled_from(["efficiency", "efficiency", "report", "gpu_fault"])),
        severity=draw(st.sampled_from(["info", "warning", "critical"])),
    )


@st.composite
def _scores(draw: st.DrawFn) -> tuple[Score, int, int]:
    """A score, and how many conditions and incidents went into it."""
    jobs = [job(number, start=draw(st.floats(0, LENGTH - HOUR))) for number in (1, 2, 3)]
    truths = {one.number: truth(one, *draw(st.lists(_conditions(), max_size=3))) for one in jobs}
    seen = [replace(one, id=i) for i, one in enumerate(draw(st.lists(_incidents(), max_size=6)))]
    begun = sum(one.start + c.since < min(one.end, LENGTH) for one in jobs for c in truths[one.number].conditions)
    return score(scenario(jobs), truths, observed(seen)), begun, len(seen)


@given(_scores())
def test_every_condition_and_every_incident_is_counted_once(case: tuple[Score, int, int]) -> None:
    found, conditions, incidents = case
    assert len(found.conditions) == conditions
    assert sorted(one.id for one in found.incidents) == list(range(incidents))
    outcomes = {"true", "allowed", "other rule", "excused", "false", "unjudged"}
    assert all(one.outcome in outcomes for one in found.incidents)
    assert {one.expected for one in found.conditions} <= {"must", "may", "no signal", "no rule", "early", "cut"}
    apart = sum(one.outcome in ("excused", "unjudged") for one in found.incidents)
    assert figures.precision_of_incidents(found).of + apart == incidents
    assert sorted(one.id for one in found.standings if one.first) == list(range(incidents))
    assert all((one.first_word is None) == (not one.found) for one in found.conditions)
    assert all(one.named <= one.beside <= one.found for one in found.conditions)
    assert all(one.beside or one.delay is None for one in found.conditions)
    assert figures.recall_by_name(found).hits <= figures.recall(found).hits <= figures.recall_by_any_rule(found).hits


@given(_scores(), _scores(), _scores())
def test_scores_add_up_in_any_grouping(a: tuple, b: tuple, c: tuple) -> None:
    one, two, three = a[0], b[0], c[0]
    assert (one + two) + three == one + (two + three)
    assert figures.recall(one + two) == figures.recall(two + one)
    assert Score() + one == one


def test_a_perfect_observer_has_one_everywhere() -> None:
    found = score(*fleet(), perfect())
    for figure in (figures.precision, figures.recall, figures.recall_by_name, figures.cause_accuracy):
        assert figure(found).value == 1, figure.__name__
    assert figures.hesitation(found).value == 0
    assert [total.error for total in figures.totals(found.accounts)] == [0, 0, 0, 0]
    assert not found.mails


def test_a_mute_observer_recalls_nothing_and_has_no_precision() -> None:
    found = score(*fleet(), observed())
    assert figures.recall(found).value == 0
    assert figures.precision(found).value is None
    assert figures.cause_accuracy(found).value is None
    assert [total.error for total in figures.totals(found.accounts)] == [-1, -1, -1, -1]


def test_what_cannot_be_said_is_a_dash() -> None:
    (by_rule,) = (table for table in tables(score(*fleet(), observed())) if table.title.startswith("By rule"))
    whole = by_rule.rows[-1]
    cells = dict(zip(by_rule.header, whole, strict=True))
    assert (str(cells["precision"]), str(cells["recall"])[:5], str(cells["cause right"])) == ("-", "0.000", "-")


def test_the_time_to_detect_is_told_by_rule_and_by_mechanism() -> None:
    found = {table.title.partition(":")[0]: table for table in tables(score(*fleet(), perfect()))}
    by_rule, by_mechanism = found["Time to detect, by rule"], found["Time to detect, by mechanism"]
    musts = figures.musts(score(*fleet(), perfect()))
    for table, names in (
        (by_rule, {one.rule for one in musts}),
        (by_mechanism, {one.case.mechanism for one in musts}),
    ):
        assert {line[0] for line in table.rows} == {*names, "all"}
    assert (by_rule.header[0], by_mechanism.header[0]) == ("rule", "mechanism")


def test_tables_name_what_was_missed_and_what_was_said_for_nothing() -> None:
    plan, truths = fleet()
    said = observed([incident(3 * HOUR, job=plan.jobs[1])], [message(plan.jobs[1], "bob@example.org", 4 * HOUR)])
    found = {table.title.partition(":")[0]: table.rows for table in tables(score(plan, truths, said))}
    assert [line[1] for line in found["Incidents about nothing"]] == [2]
    assert [
        (line[1], line[4]) for line in found["Messages to users about healthy jobs, or about none of their own"]
    ] == [(2, "idle")]
    assert len(found["Conditions that must be told, and were not or not by their name"]) == 2


def test_what_was_not_told_at_all_is_listed_before_what_stood_beside_another_rule() -> None:
    """The list is cut: of hundreds the few that matter would not be seen."""
    jobs = (job(1), job(2), job(3))
    truths = {each.number: truth(each, condition()) for each in jobs}
    beside = ("hung", "idle")
    said = observed(
        [
            incident(2 * HOUR, job=jobs[0], rule="hung", contributing=beside),
            incident(2 * HOUR, job=jobs[1], rule="underused", id=2),
        ]
    )
    found = {table.title.partition(":")[0]: table.rows for table in tables(score(scenario(jobs), truths, said))}
    listed = found["Conditions that must be told, and were not or not by their name"]
    assert [(line[1], line[-1]) for line in listed] == [
        (3, "no"),
        (2, "another rule alone"),
        (1, "beside another rule"),
    ]


def test_tables_name_what_only_an_exemption_from_the_table_of_rules_leaves_untold() -> None:
    plan, truths = fleet()
    exempt = replace(truths[2], conditions=(condition("stalled", must=False, by_table=True),))
    found = {table.title: table.rows for table in tables(score(plan, {**truths, 2: exempt}, perfect()))}
    listed = found["Conditions that would have to be told by the table of rules to the letter, and were not: 1"]
    assert [(line[1], line[4]) for line in listed] == [(2, "stalled")]


def test_rows_keep_their_subjects_whatever_was_counted() -> None:
    plan, truths = fleet()
    one, other = (rows(score(plan, truths, said), "theirs.toml") for said in (perfect(), observed()))
    assert {row.what for row in one} == {row.what for row in other}
    assert not any(character.isdigit() for row in one for character in row.what.partition("(aim")[0])
    assert all(row.what.startswith("fleet in a box, theirs.toml: ") for row in one)


def test_a_text_names_jobs_of_slurm_and_pods_that_are_known() -> None:
    known = ["k8s/ana/train-7/uid", "slurm/3"]
    assert named("Your job slurm/12 and train-7, not train-8 or slurm/x", known) == ["slurm/12", "k8s/ana/train-7/uid"]


def test_an_incident_of_no_job_of_the_run_is_false() -> None:
    stray = incident(HOUR, job=job(99))
    found = score(*fleet(), observed([stray]))
    assert [(one.case.mechanism, one.outcome) for one in found.incidents] == [("no such job", "false")]
