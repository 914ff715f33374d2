"""What is aimed at, and what a score says of each aim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.box.scoring import figures
from benchmarks.box.scoring.intervals import Figure, sure
from benchmarks.box.scoring.ratios import Estimate, Share
from benchmarks.box.scoring.record import Score
from benchmarks.box.scoring.waits import WELL

PRECISION, RECALL, CAUSES = 0.99, 0.98, 0.9
CORRECT = 0.8
"""Of all incidents, those that name one cause, the true one: to hesitate is honest where signals do not tell causes
apart, and yet leaves the work to who reads it. Nine of ten that are named are to be true, and one of nine may hesitate.
"""
TOLD_OF_WELL = 0.05
"""Of the jobs that lose next to nothing, those that may be told of a wait: some lose that little in one piece, for
longer than a window, and people stop to read what one in twenty of them is told for nothing.
"""
FEWEST = 20
"""A rule or a mechanism with fewer cases has no figure of its own."""

MISSED, NOT_SHOWN, MET, TOO_FEW = "missed", "not shown", "met", "too few cases"
STATES = (MISSED, NOT_SHOWN, MET, TOO_FEW)


@dataclass(frozen=True)
class Aim:
    """A share that is to be `at_least` or `at_most` so much."""

    name: str
    figure: Figure
    at_least: float | None = None
    at_most: float | None = None

    def state(self, found: Estimate, fewest: int) -> str:
        """`missed` by what was found itself; `not shown` where the aim lies within its interval."""
        if found.share.of < fewest or found.share.value is None or found.interval is None:
            return TOO_FEW
        low, high = found.interval
        if self.at_least is not None:
            return MISSED if found.share.value < self.at_least else NOT_SHOWN if low < self.at_least else MET
        most = self.at_most or 0.0
        return MISSED if found.share.value > most else NOT_SHOWN if high > most else MET

    def __str__(self) -> str:
        return f"aim {self.at_least:g}" if self.at_least is not None else f"aim at most {self.at_most:g}"


@dataclass(frozen=True)
class Verdict:
    """What became of an aim: one of STATES, and the figure in words."""

    what: str
    name: str
    state: str
    figure: str

    def __str__(self) -> str:
        return f"{self.what}: {self.name} {self.figure}"


_OF_JOBS = (
    Aim("precision", figures.precision, PRECISION),
    Aim("recall", figures.recall, RECALL),
    Aim("causes", figures.cause_accuracy, CAUSES),
)
_TOGETHER = (*_OF_JOBS, Aim("one cause, the true one", figures.cause_of_all, CORRECT))
_OF_WELL = (Aim("told of a wait", figures.well_told, at_most=TOLD_OF_WELL),)
_OF_OTHERS = (Aim("precision", figures.precision, PRECISION), Aim("recall", figures.recall, RECALL))


def aims(score: Score) -> list[Verdict]:
    """Every aim with what became of it; a figure without any case is left out."""
    jobs = figures.efficiency(score)
    found = [*_shares("all jobs", jobs, _TOGETHER, fewest=1)]
    found += _shares(f"jobs that lose less than {WELL:.0%}", score, _OF_WELL, fewest=1)
    found += _shares("GPUs and nodes", figures.devices(score), _OF_OTHERS, fewest=1)
    found += _shares("reports", figures.reports(score), _OF_OTHERS, fewest=1)
    for rule in figures.rules(jobs):
        found += _shares(rule, figures.of_rule(jobs, rule), _OF_JOBS, fewest=FEWEST)
    for name in figures.mechanisms(jobs):
        found += _shares(name, figures.of_mechanism(jobs, name), _OF_JOBS, fewest=FEWEST)
    found += _accounts(score)
    mails, failures = sum(mail.owner for mail in score.mails), sum(run.failures for run in score.runs)
    found.append(_none("mails to users", "about healthy jobs, or about none of their own", mails))
    found.append(_none("passes", "that failed", failures))
    return found


def missed(verdicts: list[Verdict]) -> list[Verdict]:
    """Those that were, by what was found itself."""
    return [one for one in verdicts if one.state == MISSED]


def _shares(what: str, score: Score, of_it: tuple[Aim, ...], *, fewest: int) -> Iterator[Verdict]:
    for aim in of_it:
        found = sure(aim.figure, score)
        if found.share != Share(0, 0):
            yield Verdict(what, aim.name, aim.state(found, fewest), f"{found} ({aim})")


def _accounts(score: Score) -> Iterator[Verdict]:
    for total in figures.totals(score.accounts):
        if total.error is not None:
            state = MISSED if abs(total.error) > figures.NEAR else MET
            figure = f"is out by {total.error:+.2%} (aim {figures.NEAR:.0%})"
            yield Verdict(f"the ledger's {total.name} hours", "together", state, figure)


def _none(what: str, name: str, count: int) -> Verdict:
    return Verdict(what, name, MISSED if count else MET, f"{count} (aim 0)")
