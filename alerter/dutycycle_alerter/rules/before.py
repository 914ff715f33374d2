"""What a job's GPUs did before a window, as far as that was watched."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dutycycle_alerter.model import Usage, WindowEvidence
from dutycycle_alerter.rules.case import Case


@dataclass(frozen=True, slots=True)
class Before:
    """GPUs of a job over the time between the beginning of the longest window of its rules and that of a shorter one.

    `utilization` is their mean duty cycle in that time. `whole` tells that the time reaches back to the job's beginning
    and was measured well enough: what did not happen in it never did. `pauses` are idle gaps of 30 s to 10 min as a
    share of the measured time without longer ones, the shorter window included; None where they are not known, or where
    that is less than a job's grace.
    """

    utilization: float
    whole: bool
    pauses: float | None


def before(case: Case, length: float, places: Collection[int] | None = None) -> Before | None:
    """What was before the last `length` wall seconds; None where nothing is known of that time. `places` are those of
    the GPUs in the job that are meant; None: all.
    """
    longest = case.evidence.longest
    longer = max(one for one in (length, *case.lengths()) if longest is None or one <= max(longest, length))
    if longer == length:
        return None
    all_, last = (_only(case.window(one), places) for one in (longer, length))
    pairs = list(zip(all_, last, strict=True))
    measured = sum(whole.observed - part.observed for whole, part in pairs)
    if measured <= 0:  # also where the longer window was not answered
        return None
    worked = sum(max(0.0, min(a.busy, a.observed) - min(b.busy, b.observed)) for a, b in pairs)
    whole = _whole(case, longer, length, measured, sum(usage.share for usage in last))
    return Before(min(1.0, worked / measured), whole, _pauses(case, all_))


def _only(window: WindowEvidence, places: Collection[int] | None) -> Sequence[Usage]:
    return window.gpus if places is None else [usage for place, usage in enumerate(window.gpus) if place in places]


def _whole(case: Case, longer: float, length: float, measured: float, gpus: float) -> bool:
    job, at, watched = case.job, case.evidence.at, case.evidence.watched_from
    # A source sees a job a little after it began; what a job does within its grace is of no account.
    soon = watched <= job.start + case.settings.grace.batch
    lived = at - length - max(job.start, watched)
    enough = measured >= case.settings.coverage * lived * gpus * (1 - 1e-9)
    return job.start_told and soon and at - longer <= job.start and enough


def _pauses(case: Case, usages: Sequence[Usage]) -> float | None:
    paused = measured = 0.0
    for usage in usages:
        if usage.gap_30to600 is None or usage.gap_ge600 is None:
            return None
        paused += usage.gap_30to600
        measured += usage.observed - usage.gap_ge600
    # Where the window has moved on past most of what the job did, what is left of that says little.
    enough = case.settings.grace.batch * sum(usage.share for usage in usages)
    return min(1.0, paused / measured) if measured > 0 and measured >= enough else None
