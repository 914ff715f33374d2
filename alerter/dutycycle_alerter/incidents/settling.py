"""When the causes that are found now are better than those that were told: what was told must not flap. Pure."""

from __future__ import annotations

from dutycycle_alerter.incidents.model import NOTHING_WORKS, Cause, Diagnosis
from dutycycle_alerter.model import JobEvidence
from dutycycle_alerter.rules.verdict import Judgement
from dutycycle_alerter.settings import Judging

_NO_PROCESS = frozenset({Cause.NO_PROCESS})


def may_settle(told: Diagnosis) -> bool:
    """Whether what was told may change at all: it hesitates, or says that GPUs do nothing."""
    return len(told.causes) > 1 or bool(NOTHING_WORKS & set(told.causes))


def settles(latest: Diagnosis, earlier: Diagnosis, judgement: Judgement, rule: str, settings: Judging) -> bool:
    """Whether the `latest` diagnosis, of `rule`, is to be told instead of an `earlier` one. A hesitation may end when
    evidence arrives; what was told neither falls back nor changes by degrees. That GPUs do nothing may be seen to be
    over, and so may that nothing holds them.
    """
    found, told = frozenset(latest.causes), frozenset(earlier.causes)
    if Cause.HOST_WORK in found and Cause.CPU_ONLY in told:
        # Both compute on CPUs: it is the other once a process is known to hold the GPUs.
        told = told - {Cause.CPU_ONLY} | {Cause.HOST_WORK}
    now, before = found & NOTHING_WORKS, told & NOTHING_WORKS
    if before and not now:
        # That a rest is not found again may be for want of evidence. The rule `idle` sees whether somebody works.
        return judgement.verdict("idle").outcome.closes
    came = before == _NO_PROCESS and Cause.NO_PROCESS not in now
    left = now == _NO_PROCESS and bool(before) and Cause.NO_PROCESS not in before
    if left:
        # What is started again and again holds them for a moment at a time: it has left once it stays away.
        length = min(judgement.verdict(rule).window, settings.rules.idle.window)
        return _without_process(judgement.evidence, length)
    # What is not measured any more may be what the others were found by. Fewer causes of which only some are new may be
    # for want of evidence, too.
    fewer = found < told or (len(found) < len(told) and not found & told)
    return came or (fewer and frozenset(earlier.known) <= frozenset(latest.known))


def _without_process(evidence: JobEvidence, length: float) -> bool:
    """Whether no process held any GPU of the job at any time of its last `length` seconds, as far as all is known."""
    return all(usage.processes == 0 for usage in evidence.window(length).gpus)
