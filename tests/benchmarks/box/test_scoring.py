"""A score as a whole: all is counted once, scores add up, and what an ideal and a mute observer get."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.box.model import Condition, Fault, SeenIncident
from benchmarks.box.rules import WINDOW
from benchmarks.box.scoring import Score, figures, rows, score, tables
from benchmarks.box.scoring.devices import longest_free
from benchmarks.box.scoring.ratios import Share, over_seeds, quantile
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
    silent = "" if must else draw(st.sampled_from(["", "no signal"]))
    causes = frozenset(draw(CAUSES))
    return Condition(draw(RULES), causes, since, until, must, silent, draw(st.sampled_from([None, 0.5, 10.0, 60.0])))


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
    assert {one.expected for one in found.conditions} <= {"must", "may", "silent", "early", "cut"}
    judged = figures.precision(found)
    apart = sum(one.outcome in ("excused", "unjudged") for one in found.incidents)
    assert judged.of + apart == incidents
    assert all((one.first_word is None) == (not one.found) for one in found.conditions)
    assert all(one.named <= one.beside <= one.found for one in found.conditions)
    assert all(one.beside or one.delay is None for one in found.conditions)
    assert figures.precision(found).hits <= figures.precision_of_any_rule(found).hits
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


def test_tables_name_what_was_missed_and_what_was_said_for_nothing() -> None:
    plan, truths = fleet()
    said = observed([incident(3 * HOUR, job=plan.jobs[1])], [message(plan.jobs[1], "bob@example.org", 4 * HOUR)])
    found = {table.title.partition(":")[0]: table.rows for table in tables(score(plan, truths, said))}
    assert [line[1] for line in found["Incidents about nothing"]] == [2]
    assert [
        (line[1], line[4]) for line in found["Messages to users about healthy jobs, or about none of their own"]
    ] == [(2, "idle")]
    assert len(found["Conditions that must be told, and were not or not by their name"]) == 2


@pytest.mark.parametrize(
    ("to", "owner"),
    [("ada@example.org", True), ("ada", True), ("@ada", True), ("ops@example.org", False), ("adam@example.org", False)],
)
def test_a_mail_about_a_healthy_job_is_its_owners_or_somebody_elses(to: str, owner: bool) -> None:
    one = job()
    found = score(scenario([one]), {1: truth(one)}, observed([], [message(one, to)]))
    assert [mail.owner for mail in found.mails] == [owner]
    assert figures.healthy_hours(found) == 16


def test_a_mail_about_a_job_with_any_condition_is_not_false() -> None:
    one = job()
    found = score(scenario([one]), {1: truth(one, condition(must=False))}, observed([], [message(one)]))
    assert not found.mails
    assert figures.healthy_hours(found) == 0


def test_a_user_who_is_told_of_somebody_elses_job_is_troubled_for_nothing() -> None:
    one, other = job(), job(2, user="bob", gpus=(("n0", 2),))
    truths = {1: truth(one, condition()), 2: truth(other, condition())}
    found = score(scenario([one, other]), truths, observed([], [message(one, "bob@example.org"), message(one)]))
    assert [(mail.case.job, mail.to, mail.owner) for mail in found.mails] == [(1, "bob@example.org", True)]
    assert [(mail.case.job, mail.worth) for mail in found.owner_mails] == [(1, "must")]


def test_a_mail_to_a_user_that_speaks_of_no_job_is_false() -> None:
    one = job()
    empty = replace(message(one), workloads=())
    found = score(scenario([one]), {1: truth(one, condition())}, observed([], [empty]))
    assert [(mail.case.mechanism, mail.owner) for mail in found.mails] == [("no job of the run", True)]
    to_operators = replace(empty, to="gpus@example.org")
    assert not score(scenario([one]), {1: truth(one)}, observed([], [to_operators])).mails


def test_rows_keep_their_subjects_whatever_was_counted() -> None:
    plan, truths = fleet()
    one, other = (rows(score(plan, truths, said)) for said in (perfect(), observed()))
    assert {row.what for row in one} == {row.what for row in other}
    assert not any(character.isdigit() for row in one for character in row.what.partition("(aim")[0])


def test_an_interval_over_runs_is_wider_where_runs_differ() -> None:
    assert over_seeds([Share(9, 10)] * 4) is None
    assert over_seeds([Share(9, 10)] * 10) == (0.9, 0.9)
    low, high = over_seeds([Share(10, 10)] * 5 + [Share(0, 10)] * 5) or (0, 0)
    assert low < 0.3 < 0.7 < high


def test_a_text_names_jobs_of_slurm_and_pods_that_are_known() -> None:
    known = ["k8s/ana/train-7/uid", "slurm/3"]
    assert named("Your job slurm/12 and train-7, not train-8 or slurm/x", known) == ["slurm/12", "k8s/ana/train-7/uid"]


def test_jobs_that_the_run_cut_off_have_no_account() -> None:
    cut = job(end=LENGTH + 1)
    found = score(scenario([cut]), {1: truth(cut)}, observed())
    assert (found.accounts, found.runs[0].cut) == ((), 1)


def test_an_incident_of_no_job_of_the_run_is_false() -> None:
    stray = incident(HOUR, job=job(99))
    found = score(*fleet(), observed([stray]))
    assert [(one.case.mechanism, one.outcome) for one in found.incidents] == [("no such job", "false")]


def _of_device(kind: str, at: float, gpu: str = "n0/0", **changes: object) -> SeenIncident:
    return incident(at, rule=kind, causes=("fault",), kind=kind, gpu=gpu, workload="", **changes)


FAULTS = {
    # fault, incidents -> expected, found, outcomes
    "a critical XID": (Fault(("n0", 0), HOUR, "xid", 79), [_of_device("gpu_fault", HOUR + 60)], "must", True, ["true"]),
    "one of another GPU": (
        Fault(("n0", 0), HOUR, "xid", 79),
        [_of_device("gpu_fault", HOUR + 60, "n0/1")],
        "must",
        False,
        ["false"],
    ),
    "an application's XID": (
        Fault(("n0", 0), HOUR, "xid", 13),
        [_of_device("gpu_fault", HOUR + 60)],
        "silent",
        False,
        ["false"],
    ),
    "a lost GPU, told of its node": (
        Fault(("n0", 0), HOUR, "lost"),
        [_of_device("gpu_fault", HOUR + 60, "n0")],
        "must",
        True,
        ["true"],
    ),
    "heat": (
        Fault(("n0", 0), HOUR, "thermal", 0.3, 3 * HOUR),
        [_of_device("throttled", HOUR + 960)],
        "must",
        True,
        ["true"],
    ),
    "a little heat": (Fault(("n0", 0), HOUR, "thermal", 0.05, 3 * HOUR), [], "may", False, []),
    "a leak on a free GPU": (
        Fault(("n1", 0), HOUR, "leaked", 2e9, 3 * HOUR),
        [_of_device("leaked_memory", HOUR + 960, "n1/0")],
        "must",
        True,
        ["true"],
    ),
    "a leak on a GPU that is held": (Fault(("n0", 0), HOUR, "leaked", 2e9, 3 * HOUR), [], "may", False, []),
    "power alone is information": (
        Fault(("n0", 0), 20 * HOUR, "xid", 13),
        [_of_device("throttled", HOUR, severity="info")],
        "silent",
        False,
        ["unjudged"],
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults_of_gpus_are_scored(case: str) -> None:
    fault, seen, expected, found, outcomes = FAULTS[case]
    held = job(start=0.0)
    result = score(scenario([held], [fault]), {1: truth(held)}, observed(seen))
    assert [(one.expected, one.found) for one in result.conditions] == [(expected, found)]
    assert [one.outcome for one in result.incidents] == outcomes


def test_an_incident_of_a_job_whose_gpu_broke_is_excused() -> None:
    one = job()
    seen = [incident(3 * HOUR, rule="uneven")]
    result = score(scenario([one], [Fault(("n0", 1), 2 * HOUR, "lost")]), {1: truth(one)}, observed(seen))
    assert [i.outcome for i in result.incidents] == ["excused"]
    assert figures.precision(figures.efficiency(result)).value is None


def test_the_longest_time_in_which_a_gpu_is_free() -> None:
    held = [job(1, start=10.0, end=20.0), job(2, start=15.0, end=30.0), job(3, start=70.0, end=90.0)]
    assert longest_free(("n0", 0), 0, 100, held) == (30, 70)
    assert longest_free(("n0", 0), 12, 28, held) is None
    assert longest_free(("n1", 0), 5, 9, held) == (5, 9)


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
