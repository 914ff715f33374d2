"""What holds for every rule on GPUs: when none can be judged, and why."""

from __future__ import annotations

from dutycycle_alerter.model import GpuEvidence
from dutycycle_alerter.rules.verdict import Outcome, Verdict


def exempt(rule: str, evidence: GpuEvidence, length: float = 0.0, *, enabled: bool, whole: str = "") -> Verdict | None:
    """A rule that is switched off, or one that says nothing of MIG instances: `whole` tells why."""
    if not enabled:
        return Verdict(rule, Outcome.NOT_APPLICABLE, length, reason="disabled in the configuration")
    if whole and evidence.gpu.mig:
        return Verdict(rule, Outcome.NOT_APPLICABLE, length, reason=whole)
    return None


def unseen(rule: str, evidence: GpuEvidence, length: float = 0.0) -> Verdict | None:
    """A GPU of which nothing is known now."""
    if evidence.visible:
        return None
    return Verdict(rule, Outcome.UNKNOWN, length, reason="its exporter does not show it")


def unwatched(rule: str, evidence: GpuEvidence, length: float) -> Verdict | None:
    """A window that was not watched from its start."""
    ready = evidence.watched_from + length
    return Verdict(rule, Outcome.WAITING, length, until=ready) if evidence.at < ready else None
