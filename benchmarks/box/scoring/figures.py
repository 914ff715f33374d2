"""The figures of a score, and of any part of it: what the tables show and what is compared with aims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.box.scoring.ratios import Share, share
from benchmarks.box.scoring.record import Account, Case, Condition, Incident, Score

JUDGED = ("true", "allowed", "false")
"""Outcomes that precision is about."""


def efficiency(score: Score) -> Score:
    """The part of a score that is about jobs' efficiency, without faults of GPUs and reports."""
    return Score(
        runs=score.runs,
        conditions=tuple(c for c in score.conditions if c.case.job),
        incidents=tuple(i for i in score.incidents if i.kind == "efficiency"),
        mails=score.mails,
        accounts=score.accounts,
        healthy=score.healthy,
    )


def part(score: Score, case: Callable[[Case], bool]) -> Score:
    """The records whose case is wanted; runs stay whole."""
    return Score(
        runs=score.runs,
        conditions=tuple(c for c in score.conditions if case(c.case)),
        incidents=tuple(i for i in score.incidents if case(i.case)),
        mails=tuple(m for m in score.mails if case(m.case)),
        accounts=tuple(a for a in score.accounts if case(a.case)),
        healthy=tuple(h for h in score.healthy if case(h.case)),
    )


def of_rule(score: Score, rule: str) -> Score:
    """Conditions and incidents of a rule."""
    return Score(
        runs=score.runs,
        conditions=tuple(c for c in score.conditions if c.rule == rule),
        incidents=tuple(i for i in score.incidents if i.rule == rule),
    )


def precision(score: Score) -> Share:
    """Of the incidents that can be judged, those that are about something."""
    return share(i.outcome != "false" for i in score.incidents if i.outcome in JUDGED)


def musts(score: Score) -> tuple[Condition, ...]:
    return tuple(c for c in score.conditions if c.expected == "must")


def recall(score: Score) -> Share:
    """Of the conditions that must be told, those that were."""
    return share(c.found for c in musts(score))


def recall_by_name(score: Score) -> Share:
    """Of the conditions that must be told, those that were under their own rule."""
    return share(c.named for c in musts(score))


def explained(score: Score) -> list[Incident]:
    return [i for i in score.incidents if i.outcome in ("true", "allowed")]


def rule_right(score: Score) -> Share:
    """Of the incidents that are about something, those under its own rule."""
    return share(i.named for i in explained(score))


def cause_accuracy(score: Score) -> Share:
    """Of the incidents that name one cause, those that name a true one."""
    return share(i.cause == "right" for i in score.incidents if i.cause in ("right", "wrong"))


def hesitation(score: Score) -> Share:
    """Of the incidents with a cause to compare, those that name two or three."""
    return share(i.cause in ("among", "not among") for i in score.incidents if i.cause)


def truth_among(score: Score) -> Share:
    """Of the incidents that hesitate, those that name a true cause."""
    return share(i.cause == "among" for i in score.incidents if i.cause in ("among", "not among"))


def healthy_hours(score: Score) -> float:
    return sum(healthy.gpu_hours for healthy in score.healthy)


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
