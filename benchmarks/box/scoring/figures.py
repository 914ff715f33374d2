"""The figures of a score, and of any part of it: what the tables show and what is compared with aims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.box.scoring import waits
from benchmarks.box.scoring.ratios import Share, share
from benchmarks.box.scoring.record import Account, Case, Condition, Incident, Score
from benchmarks.box.scoring.timing import REPORTS

RIGHT = ("true", "allowed")
JUDGED = (*RIGHT, "other rule", "false")
"""Outcomes that precision is about."""

NEAR = 0.01
"""The aim of accounting."""

OUTCOMES = (*JUDGED, "excused", "unjudged")


def efficiency(score: Score) -> Score:
    """The part of a score that is about jobs' efficiency, without faults of GPUs and reports."""
    return Score(
        runs=score.runs,
        conditions=tuple(c for c in score.conditions if c.case.job and c.rule not in REPORTS),
        incidents=tuple(i for i in score.incidents if i.kind == "efficiency"),
        standings=tuple(s for s in score.standings if s.kind == "efficiency"),
        mails=score.mails,
        accounts=score.accounts,
        healthy=score.healthy,
        uses=score.uses,
        owner_mails=score.owner_mails,
    )


def reports(score: Score) -> Score:
    """The part that is about what is reported at a job's end."""
    return Score(
        runs=score.runs,
        conditions=tuple(c for c in score.conditions if c.rule in REPORTS),
        incidents=tuple(i for i in score.incidents if i.kind == "report"),
        standings=tuple(s for s in score.standings if s.kind == "report"),
    )


def devices(score: Score) -> Score:
    """The part that is about GPUs and nodes."""
    return Score(
        runs=score.runs,
        conditions=tuple(c for c in score.conditions if not c.case.job),
        incidents=tuple(i for i in score.incidents if i.kind not in ("efficiency", "report")),
        standings=tuple(s for s in score.standings if s.kind not in ("efficiency", "report")),
    )


def part(score: Score, case: Callable[[Case], bool]) -> Score:
    """The records whose case is wanted; runs stay whole."""
    return Score(
        runs=score.runs,
        conditions=tuple(c for c in score.conditions if case(c.case)),
        incidents=tuple(i for i in score.incidents if case(i.case)),
        standings=tuple(s for s in score.standings if case(s.case)),
        mails=tuple(m for m in score.mails if case(m.case)),
        accounts=tuple(a for a in score.accounts if case(a.case)),
        healthy=tuple(h for h in score.healthy if case(h.case)),
        uses=tuple(u for u in score.uses if case(u.case)),
        owner_mails=tuple(m for m in score.owner_mails if case(m.case)),
    )


def of_mechanism(score: Score, name: str) -> Score:
    return part(score, lambda case: case.mechanism == name)


def shown_by(score: Score, exporters: str) -> Score:
    """What is of jobs that exporters' processes showed, the crowd, or both."""
    return part(score, lambda case: case.shown_by == exporters)


def of_rule(score: Score, rule: str) -> Score:
    """Conditions of a rule, what stood under it, and the incidents that had it last."""
    return Score(
        runs=score.runs,
        conditions=tuple(c for c in score.conditions if c.rule == rule),
        incidents=tuple(i for i in score.incidents if i.rule == rule),
        standings=tuple(s for s in score.standings if s.rule == rule),
    )


def rules(score: Score) -> list[str]:
    """All that were there or told, by name."""
    return sorted({one.rule for one in (*score.conditions, *score.standings)})


def mechanisms(score: Score) -> list[str]:
    """All of which something was true or told, by name."""
    return sorted({one.case.mechanism for one in (*score.conditions, *score.incidents)})


def precision(score: Score) -> Share:
    """Of the rules that stood over incidents, at each opening and after each change, those that were there for what was
    wrong then.
    """
    return share(s.outcome in RIGHT for s in score.standings if s.outcome in JUDGED)


def precision_of_incidents(score: Score) -> Share:
    """Of the incidents, each judged once by its first opening, those that ever were under a rule that is there for what
    was wrong then.
    """
    return share(i.outcome in RIGHT for i in score.incidents if i.outcome in JUDGED)


def musts(score: Score) -> tuple[Condition, ...]:
    return tuple(c for c in score.conditions if c.expected == "must")


def recall(score: Score) -> Share:
    """Of the conditions that must be told, those whose own rule was, alone or beside another."""
    return share(c.named or c.beside for c in musts(score))


def recall_by_name(score: Score) -> Share:
    """Of the conditions that must be told, those over which their own rule stood."""
    return share(c.named for c in musts(score))


def recall_by_any_rule(score: Score) -> Share:
    """Of the conditions that must be told, those for which anything was told."""
    return share(c.found for c in musts(score))


def recall_with(score: Score, *also: str) -> Share:
    """The same of all that must be told and of what else is expected to be so: `no rule`, `no signal`."""
    return share(c.named or c.beside for c in score.conditions if c.expected in ("must", *also))


def recall_with_unruled(score: Score) -> Share:
    """The same where what a signal shows and no rule is there for must be told, too."""
    return recall_with(score, "no rule")


def recall_by_table(score: Score) -> Share:
    """The same without the exemptions from the table of rules."""
    return share(c.named or c.beside for c in score.conditions if c.expected == "must" or c.by_table)


def explained(score: Score) -> list[Incident]:
    return [i for i in score.incidents if i.outcome in (*RIGHT, "other rule")]


def cause_accuracy(score: Score) -> Share:
    """Of the incidents that name one cause at last, those that name a true one."""
    return share(i.cause == "right" for i in score.incidents if i.cause in ("right", "wrong"))


def first_cause(score: Score) -> Share:
    """The same of what was told first."""
    return share(i.first_cause == "right" for i in score.incidents if i.first_cause in ("right", "wrong"))


def main_cause(score: Score) -> Share:
    """The same where only what took most of the time is right."""
    return share(i.main_cause == "right" for i in score.incidents if i.main_cause in ("right", "wrong"))


def cause_of_all(score: Score) -> Share:
    """Of all incidents that are about something, those that name one cause, a true one: to hesitate is not right."""
    return share(i.cause == "right" for i in explained(score))


def hesitation(score: Score) -> Share:
    """Of the incidents with a cause to compare, those that name two or three."""
    return share(i.cause in ("among", "not among") for i in score.incidents if i.cause)


def truth_among(score: Score) -> Share:
    """Of the incidents that hesitate, those that name a true cause."""
    return share(i.cause == "among" for i in score.incidents if i.cause in ("among", "not among"))


def well_told(score: Score) -> Share:
    """Of the jobs that lost next to nothing to waits, those of which a wait was told."""
    return waits.well_told(score.uses)


def watched_hours(score: Score) -> float:
    """GPU-hours of healthy jobs for which something could have been told of them."""
    return sum(healthy.watched for healthy in score.healthy)


def mails_of_well(score: Score) -> Share:
    """Of the mails to owners, those about a job of theirs that lost next to nothing to waits, by the ledger."""
    return share(mail.lost < waits.WELL for mail in score.owner_mails if mail.lost is not None)


def per_thousand(count: int, hours: float) -> float | None:
    """Cases per 1,000 GPU-hours; None where there are no hours."""
    return 1000 * count / hours if hours > 0 else None


@dataclass(frozen=True)
class Total:
    """A quantity of the ledger beside the truth: GPU-seconds together, and each job's error as a share of what it had
    allocated. Jobs of which the ledger has nothing count as 0 seen.
    """

    name: str
    true: float
    seen: float
    errors: tuple[float, ...]
    """Signed, one for each account, in their order."""

    @property
    def error(self) -> float | None:
        """Of the sum, relative; None where there is nothing to compare."""
        return self.seen / self.true - 1 if self.true > 0 else None

    @property
    def within(self) -> Share:
        """Of the jobs, those that are out by no more than is aimed at."""
        return share(abs(error) <= NEAR for error in self.errors)

    def apart(self, accounts: Sequence[Account]) -> float | None:
        """All errors without their signs, weighed by what the jobs had: opposite ones do not cancel out."""
        had = sum(account.allocated for account in accounts)
        out = sum(abs(error) * account.allocated for error, account in zip(self.errors, accounts, strict=True))
        return out / had if had > 0 else None


def totals(accounts: tuple[Account, ...]) -> tuple[Total, ...]:
    """Allocated, observed, busy and wasted. All that is allocated should be observed."""

    def total(name: str, true: Callable[[Account], float], seen: Callable[[Account], float]) -> Total:
        pairs = [(true(account), seen(account)) for account in accounts]
        errors = tuple((s - t) / a.allocated if a.allocated else 0.0 for a, (t, s) in zip(accounts, pairs, strict=True))
        return Total(name, sum(t for t, _ in pairs), sum(s for _, s in pairs), errors)

    return (
        total("allocated", lambda a: a.allocated, lambda a: a.seen_allocated or 0.0),
        total("observed", lambda a: a.allocated, lambda a: a.seen_observed or 0.0),
        total("busy", lambda a: a.busy, lambda a: a.seen_busy or 0.0),
        total("wasted", lambda a: a.allocated - a.busy, lambda a: (a.seen_observed or 0.0) - (a.seen_busy or 0.0)),
    )
