"""What a job's GPUs did before a window, as far as that was watched and is the job's own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dutycycle_alerter.model import Usage, WindowEvidence
from dutycycle_alerter.rules.case import Case
from dutycycle_alerter.rules.units import memory_held


@dataclass(frozen=True, slots=True)
class Before:
    """GPUs of a job over the `seconds` (wall) before a shorter window, as far back as the longest window of its rules.

    `utilization` is their mean duty cycle in that time; `most` the seconds for which the one that worked most was busy.
    `whole` tells that the time reaches back to the job's beginning and was measured well enough: what did not happen in
    it never did.
    """

    utilization: float
    most: float
    seconds: float
    whole: bool

    def worked(self, below: float, length: float) -> bool | None:
        """Whether a GPU ever worked as much as keeps a window of `length` seconds from being idle for a rule that asks
        for at most `below`; None where what was not seen may have been work. No share of the whole time, which any
        rest makes smaller.
        """
        if self.most > below * length:
            return True
        return False if self.whole else None


def before(case: Case, length: float, places: Collection[int] | None = None) -> Before | None:
    """What was before the last `length` wall seconds; None where nothing is known of that time, or of too little of it.
    `places` are those of the GPUs in the job that are meant; None: all.
    """
    longer = _longer(case, length)
    pairs = _pairs(case, longer, length, places)
    measured = sum(_measured(pair) for pair in pairs)
    if not _enough(case, pairs, measured):
        return None
    worked = [max(0.0, min(a.busy, a.observed) - min(b.busy, b.observed)) for a, b in pairs]
    lived = case.evidence.at - _since(case)
    return Before(
        utilization=min(1.0, sum(worked) / measured),
        most=max(seconds / last.share for seconds, (_, last) in zip(worked, pairs, strict=True)),
        seconds=min(longer, lived) - length,
        whole=case.job.start_told
        and _soon(case)
        and longer >= lived
        and measured >= case.settings.coverage * (lived - length) * _shares(pairs) * (1 - 1e-9),
    )


def never_used(case: Case, places: Collection[int]) -> frozenset[int]:
    """Return those of the places whose GPU had neither a process nor memory in use in the whole life of the job. It has
    none of a job that was not watched from its beginning, and no GPU of which either is not measured.
    """
    lived = case.evidence.at - _since(case)
    length = _at_least(case, lived)
    if length is None or not (case.job.start_told and _soon(case)):
        return frozenset()
    usages = case.window(length).gpus
    return frozenset(
        place
        for place in places
        if case.covered(usages[place], lived) and usages[place].processes == 0 and memory_held(usages[place]) is False
    )


def _at_least(case: Case, lived: float) -> float | None:
    """Return a window that is not shorter than the life of the job; None where the source has none."""
    longest = case.evidence.longest
    if longest is None:
        return lived
    return min((one for one in case.lengths() if lived <= one <= longest), default=None)


_Pair = tuple[Usage, Usage]
"""A GPU over the longer and over the shorter window."""


def _pairs(case: Case, longer: float, length: float, places: Collection[int] | None = None) -> list[_Pair]:
    """Empty where the longer window does not say what these GPUs did for this job, all of it and nothing else."""
    pairs = list(zip(_only(case.window(longer), places), _only(case.window(length), places), strict=True))
    # Of a GPU that is missing in the longer window nothing is known, and not that it did nothing. One that was measured
    # for longer than its job has lived has in it what an earlier run did.
    lived = case.evidence.at - case.job.start + case.settings.grace.batch
    sound = all((a.observed > 0 or b.observed <= 0) and a.observed <= a.share * lived for a, b in pairs)
    return pairs if sound else []


def _only(window: WindowEvidence, places: Collection[int] | None) -> Sequence[Usage]:
    return window.gpus if places is None else [usage for place, usage in enumerate(window.gpus) if place in places]


def _longer(case: Case, length: float) -> float:
    """The longest window that shows nothing but what was watched of the job; `length` where that is not longer."""
    at, since = case.evidence.at, _since(case)
    longest = case.evidence.longest
    if longest is None:  # any window can be asked for
        return max(length, min(max(case.lengths()), at - since))
    # From a beginning that was watched a window may reach further back: counters of the job did not grow there.
    usable = (one for one in case.lengths() if one <= longest and (at - one >= since or _soon(case)))
    return max((length, *usable))


def _since(case: Case) -> float:
    """From when on the job was watched."""
    return max(case.job.start, case.evidence.watched_from)


def _soon(case: Case) -> bool:
    """Whether it was watched from its beginning: a source sees a job a little after that, and what a job does within
    its grace is of no account.
    """
    return case.evidence.watched_from <= case.job.start + case.settings.grace.batch


def _enough(case: Case, pairs: Sequence[_Pair], measured: float) -> bool:
    """Whether so many seconds, GPUs together, say anything: about as much as a job's grace, in which it is not judged
    either.
    """
    least = case.settings.coverage * case.settings.grace.batch * _shares(pairs)
    return measured > 0 and measured >= least * (1 - 1e-9)


def _shares(pairs: Sequence[_Pair]) -> float:
    return sum(last.share for _, last in pairs)


def _measured(pair: _Pair) -> float:
    longer, last = pair
    return max(0.0, longer.observed - last.observed)
