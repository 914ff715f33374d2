"""`leaked_memory`: memory of a GPU is in use though no process lives on it and nobody has it allocated."""

from __future__ import annotations

from dutycycle_alerter.model import DeviceWindow, GpuEvidence
from dutycycle_alerter.rules.device_case import exempt, unseen, unwatched
from dutycycle_alerter.rules.verdict import Outcome, Verdict
from dutycycle_alerter.settings import Judging

RULE = "leaked_memory"


def judge_leaked_memory(evidence: GpuEvidence, settings: Judging) -> Verdict:
    """One GPU or MIG instance. It clears as soon as the memory is seen free, whoever holds the GPU then; while somebody
    uses it, whose memory it is cannot be told.
    """
    rules = settings.rules.leaked_memory
    length = rules.window
    if undecided := exempt(RULE, evidence, length, enabled=rules.enabled) or unseen(RULE, evidence, length):
        return undecided
    baseline = evidence.memory_baseline
    if baseline is None:
        return Verdict(RULE, Outcome.UNKNOWN, length, reason="no free GPU of its model has been seen yet")
    if evidence.memory_used is not None and evidence.memory_used - baseline < rules.clear_below_bytes:
        return Verdict(RULE, Outcome.CLEAR, length)
    if undecided := unwatched(RULE, evidence, length):
        return undecided
    window = evidence.window(length)
    used, reason = window.memory_used, _unknown(window, settings)
    if used is None or reason:
        return Verdict(RULE, Outcome.UNKNOWN, length, reason=reason)
    figures = {"memory_used": used, "memory_baseline": baseline}
    leaked = used - baseline >= rules.above_bytes and not window.processes and not window.allocated
    return Verdict(
        RULE,
        Outcome.FIRING if leaked else Outcome.HOLDING,
        length,
        gpus=(evidence.gpu,) if leaked else (),
        figures=figures,
    )


def _unknown(window: DeviceWindow, settings: Judging) -> str:
    """Return what keeps a window from being judged; empty where nothing does."""
    if window.memory_used is None or window.processes is None or window.allocated is None:
        return "its memory, processes or owners were not known all the time"
    if window.processes or window.allocated:
        return ""
    if window.utilization is None:
        return "its utilization is not known"
    # Work without a process proves that processes are hidden, in a container or from another user.
    return "it works, so its processes are hidden" if window.utilization > settings.rules.idle.below else ""
