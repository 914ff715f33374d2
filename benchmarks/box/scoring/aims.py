"""What is aimed at, and which aims a score misses."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.box.scoring import figures
from benchmarks.box.scoring.ratios import Share
from benchmarks.box.scoring.record import Score

PRECISION, RECALL, CAUSES = 0.99, 0.98, 0.9
FEWEST = 20
"""A rule or a mechanism with fewer cases has no figure of its own."""

Aim = tuple[str, Callable[[Score], Share], float]
_OF_JOBS: tuple[Aim, ...] = (
    ("precision", figures.precision, PRECISION),
    ("recall", figures.recall, RECALL),
    ("causes", figures.cause_accuracy, CAUSES),
)
_OF_DEVICES: tuple[Aim, ...] = (("precision", figures.precision, PRECISION), ("recall", figures.recall, RECALL))


def aims(score: Score) -> list[str]:
    """The aims that were missed, each in words; a figure without cases misses nothing."""
    jobs = figures.efficiency(score)
    missed = [*_missed("all jobs", jobs, _OF_JOBS, fewest=1)]
    missed += _missed("GPUs and nodes", figures.devices(score), _OF_DEVICES, fewest=1)
    for rule in sorted({one.rule for one in (*jobs.conditions, *jobs.standings)}):
        missed += _missed(rule, figures.of_rule(jobs, rule), _OF_JOBS, fewest=FEWEST)
    for name in sorted({case.case.mechanism for case in (*jobs.conditions, *jobs.incidents)}):
        missed += _missed(name, figures.of_mechanism(jobs, name), _OF_JOBS, fewest=FEWEST)
    missed += _accounts(score)
    if told := sum(mail.owner for mail in score.mails):
        missed.append(f"mails to users about healthy jobs, or about none of their own: {told} (aim 0)")
    if failures := sum(run.failures for run in score.runs):
        missed.append(f"passes that failed: {failures} (aim 0)")
    return missed


def _missed(what: str, score: Score, of_it: tuple[Aim, ...], *, fewest: int) -> Iterator[str]:
    for name, figure, aim in of_it:
        share = figure(score)
        if share.of >= fewest and share.value is not None and share.value < aim:
            yield f"{what}: {name} {share} (aim {aim:g})"


def _accounts(score: Score) -> Iterator[str]:
    for total in figures.totals(score.accounts):
        if total.error is not None and abs(total.error) > figures.NEAR:
            yield f"{total.name}: the ledger's sum is out by {total.error:+.2%} (aim {figures.NEAR:.0%})"
