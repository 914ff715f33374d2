"""The second score, which is by the ledger of waits, and what counts as an aim that was missed."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from benchmarks.box.model import Fault, Job, Ledger, Truth
from benchmarks.box.scoring import Score, aims, figures, score, waits
from benchmarks.box.scoring.aims import FEWEST, Aim, missed
from benchmarks.box.scoring.ratios import Share, widest
from tests.benchmarks.box.scored import (
    HOUR,
    condition,
    fleet,
    incident,
    job,
    message,
    observed,
    perfect,
    scenario,
    truth,
)


def _wasting(one: Job, share: float) -> Truth:
    """The loss is in the first half of the job."""
    length = one.end - one.start
    lost = share * len(one.gpus) * length
    return replace(truth(one), wasted=lost, losses=((0.0, length / 2, lost),) if lost else ())


WAITS = {
    # wasted share, what was told -> worth, told of what wastes, told of what is well
    "wastes, told of a wait": (0.4, "stalled", "wasting", (1, 1), (0, 0)),
    "wastes, told of its kernels": (0.4, "low_sm_activity", "wasting", (0, 1), (0, 0)),
    "wastes, not told of": (0.4, "", "wasting", (0, 1), (0, 0)),
    "wastes, told once that is over": (0.4, "late", "wasting", (0, 1), (0, 0)),
    "well, told of a wait": (0.05, "stalled", "well", (0, 0), (1, 1)),
    "well, told of a wait where it lost nothing": (0.05, "late", "well", (0, 0), (1, 1)),
    "well, told of its kernels": (0.05, "low_sm_activity", "well", (0, 0), (0, 1)),
    "well": (0.0, "", "well", (0, 0), (0, 1)),
    "between": (0.2, "stalled", "between", (0, 0), (0, 0)),
}


@pytest.mark.parametrize("case", WAITS)
def test_jobs_are_judged_by_what_they_waited_for_without_any_rule(case: str) -> None:
    share, rule, worth, wasting, well = WAITS[case]
    one = job()
    at = one.start + (6 * HOUR if rule == "late" else HOUR)
    known = {"rule": rule.replace("late", "idle"), "started": at - HOUR / 2}
    seen = [incident(at, at + HOUR, **known)] if rule else []
    found = score(scenario([one]), {1: _wasting(one, share)}, observed(seen))
    assert [use.worth for use in found.uses] == [worth]
    assert waits.wasting_told(found.uses) == Share(*wasting)
    assert waits.well_told(found.uses) == Share(*well)
    lost, told = waits.hours_told(found.uses)
    assert lost == pytest.approx(16 * share)
    assert told == (pytest.approx(lost) if rule == "stalled" else 0)


def test_a_short_job_and_one_of_which_no_ledger_was_kept_are_neither() -> None:
    short, old = job(end=HOUR + 1800), job()
    assert waits.worth(short, _wasting(short, 1.0)) == "between"
    assert waits.worth(old, truth(old)) == "between"


def test_of_jobs_that_are_well_few_may_be_told_of_a_wait() -> None:
    jobs = [job(number, gpus=((f"m{number}", 0),)) for number in range(1, 21)]
    truths = {one.number: _wasting(one, 0.01) for one in jobs}
    seen = [incident(one.start + HOUR, job=one, rule="stalled", id=one.number) for one in jobs]
    for count, missed_it in ((1, False), (2, True)):
        lost = _missed(score(scenario(jobs), truths, observed(seen[:count])))
        assert any(one.startswith("jobs that lose less than 10%") for one in lost) == missed_it


def test_who_hesitates_has_not_named_the_true_cause() -> None:
    sick = [job(number, gpus=((f"m{number}", 0),)) for number in range(1, 11)]
    truths = {one.number: truth(one, condition()) for one in sick}
    for certain, missed_it in ((8, False), (7, True)):
        seen = [
            incident(
                one.start + 2400,
                job=one,
                id=one.number,
                causes=("no process",) if one.number <= certain else ("no process", "hang"),
            )
            for one in sick
        ]
        found = score(scenario(sick), truths, observed(seen))
        assert figures.cause_accuracy(found).value == 1
        assert any("one cause, the true one" in one for one in _missed(found)) == missed_it


def _missed(found: Score) -> list[str]:
    return [str(one) for one in missed(aims(found))]


def _kept(found: Score) -> Score:
    """With a perfect ledger, so that only what is told counts."""
    accounts = (
        msgspec.structs.replace(one, seen_allocated=one.allocated, seen_observed=one.allocated, seen_busy=one.busy)
        for one in found.accounts
    )
    return msgspec.structs.replace(found, accounts=tuple(accounts))


def test_a_perfect_observer_misses_no_aim() -> None:
    assert _missed(score(*fleet(), perfect())) == []


def test_a_mute_observer_misses_recall_and_accounts() -> None:
    lost = _missed(score(*fleet(), observed()))
    assert any(one.startswith("all jobs: recall 0.000") for one in lost)
    assert any(one.startswith("the ledger's busy hours: together is out by -100") for one in lost)


def test_a_job_told_of_under_another_rule_and_a_false_mail_are_missed_aims() -> None:
    plan, truths = fleet()
    sick, fine = plan.jobs
    said = [incident(sick.start + 40 * 60, sick.end, "low_sm_activity", job=sick)]
    lost = _missed(_kept(score(plan, truths, observed(said, [message(fine, "bob@example.org")]))))
    assert [one.partition(" ")[0] + one.partition(":")[2][:11] for one in lost] == [
        "all precision ",
        "all recall 0.0",
        "mails about heal",
    ]


def test_failed_passes_and_devices_are_aims() -> None:
    plan, truths = fleet()
    broken = replace(plan, faults=(Fault(("n1", 0), HOUR, "xid", 79),))
    lost = _missed(score(broken, truths, replace(perfect(), failures=2)))
    assert [one.partition(":")[0] for one in lost] == ["GPUs and nodes", "passes"]


def test_a_rule_with_few_cases_has_no_aim_of_its_own() -> None:
    jobs = [job(number, gpus=((f"m{number}", 0),)) for number in range(1, FEWEST + 1)]
    truths = {one.number: truth(one, condition()) for one in jobs}
    ledger = {one.workload: Ledger(28800, 28800, 14400, None) for one in jobs}
    mute = observed(ledger=ledger)
    states = [
        {one.what: one.state for one in aims(score(scenario(some), truths, mute)) if one.name == "recall"}
        for some in (jobs, jobs[1:])
    ]
    assert [of_it["idle"] for of_it in states] == ["missed", "too few cases"]
    assert [of_it["all jobs"] for of_it in states] == ["missed", "missed"]


STATES = {
    # hits, of -> at least 0.98, at most 0.05
    "clearly above": (1000, 1000, "met", "missed"),
    "above, and its interval is not": (60, 60, "not shown", "missed"),
    "below, and its interval is not": (57, 60, "missed", "missed"),
    "none of some": (0, 20, "missed", "not shown"),
    "none of many": (0, 1000, "missed", "met"),
    "too few": (19, 19, "too few cases", "too few cases"),
}


@pytest.mark.parametrize("case", STATES)
def test_an_aim_is_met_only_where_all_of_the_interval_is(case: str) -> None:
    hits, of, least, most = STATES[case]
    found = widest(Share(hits, of), ())
    assert Aim("", figures.recall, at_least=0.98).state(found, FEWEST) == least
    assert Aim("", figures.recall, at_most=0.05).state(found, FEWEST) == most


def test_opposite_errors_of_the_ledger_do_not_cancel_out() -> None:
    jobs = [job(1), job(2)]
    truths = {one.number: truth(one) for one in jobs}
    had = 2 * 8 * HOUR
    ledger = {"slurm/1": Ledger(had * 1.03, had, had / 2, None), "slurm/2": Ledger(had * 0.97, had, had / 2, None)}
    found = score(scenario(jobs), truths, observed(ledger=ledger))
    allocated = figures.totals(found.accounts)[0]
    assert allocated.error == pytest.approx(0)
    assert allocated.apart(found.accounts) == pytest.approx(0.03)
    assert allocated.within == Share(0, 2)
