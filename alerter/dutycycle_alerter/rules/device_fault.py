"""`gpu_fault`: what the driver reports of a GPU, and GPUs that a node has lost.

What opens it is positive evidence; what clears it must be known, too. An XID is an event and leaves no state that could
be read later: it counts until none was reported for the configured time. What the driver says of the GPU's state counts
for as long as the driver says it. A GPU that works again after a reset may therefore stand as faulty for some hours;
an operator who knows better resolves the incident, and only something new opens another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.model import GpuEvidence, NodeEvidence
from dutycycle_alerter.rules.device_case import exempt, unseen
from dutycycle_alerter.rules.verdict import Outcome, Verdict
from dutycycle_alerter.settings import Judging
from dutycycle_alerter.settings.device_rules import GpuFault

RULE = "gpu_fault"

_STATES = ("recovery_action", "remap_failed")
_NOTHING: Mapping[str, float] = {}


def judge_gpu_fault(evidence: GpuEvidence, settings: Judging, opened_on: Mapping[str, float] = _NOTHING) -> Verdict:
    """One GPU. `opened_on` are the figures of its open incident, empty where it has none: an XID that its exporter has
    forgotten is remembered from there, and a state that is no longer told is not taken for a good one.
    """
    rules = settings.rules.gpu_fault
    if undecided := exempt(RULE, evidence, enabled=rules.enabled, whole="faults are the whole GPU's"):
        return undecided
    figures = _fresh_xid(evidence, rules, opened_on) | _states(evidence)
    untold = [name for name in _STATES if name in opened_on and getattr(evidence, name) is None]
    if figures:
        figures |= {name: opened_on[name] for name in untold}
        severity = Severity.CRITICAL if evidence.jobs else Severity.WARNING
        return Verdict(RULE, Outcome.FIRING, severity=severity, gpus=(evidence.gpu,), figures=figures)
    if undecided := unseen(RULE, evidence):
        return undecided
    if untold:
        reason = f"the driver no longer reports its {' and '.join(untold).replace('_', ' ')}"
        return Verdict(RULE, Outcome.UNKNOWN, reason=reason)
    return Verdict(RULE, Outcome.CLEAR)


def _fresh_xid(evidence: GpuEvidence, rules: GpuFault, opened_on: Mapping[str, float]) -> dict[str, float]:
    """The newest XID that counts, with the time that its exporter gives, be it one that the alerter's clock has not
    reached yet: the same report has the same time in every pass.
    """
    found = {xid: t for xid, t in evidence.xids.items() if xid in rules.xids}
    if "xid_at" in opened_on and "xid" in opened_on:
        found.setdefault(int(opened_on["xid"]), opened_on["xid_at"])
    at, xid = max(((t, xid) for xid, t in found.items()), default=(-math.inf, 0))
    return {"xid": float(xid), "xid_at": at} if evidence.at - at < rules.quiet else {}


def _states(evidence: GpuEvidence) -> dict[str, float]:
    return {name: float(value) for name in _STATES if (value := getattr(evidence, name))}


def judge_node_fault(
    evidence: NodeEvidence,
    settings: Judging,
    opened_on: Mapping[str, float] = _NOTHING,
    *,
    jobs: tuple[str, ...] = (),
) -> Verdict:
    """One node: whether NVML shows every GPU that the PCI bus shows. `jobs` are those on the node.

    A GPU that has left the bus as well since the incident opened is still missing; whether it was taken out on purpose
    a person knows, who then resolves the incident.
    """
    if not settings.rules.gpu_fault.enabled:
        return Verdict(RULE, Outcome.NOT_APPLICABLE, reason="disabled in the configuration")
    if evidence.expected is None or evidence.visible is None:
        return Verdict(RULE, Outcome.UNKNOWN, reason="it is not known how many GPUs it should have and has")
    expected = max(evidence.expected, opened_on.get("expected", 0.0))
    figures = {"expected": expected, "visible": evidence.visible}
    if evidence.visible < expected:
        severity = Severity.CRITICAL if jobs else Severity.WARNING
        return Verdict(RULE, Outcome.FIRING, severity=severity, figures=figures)
    return Verdict(RULE, Outcome.CLEAR, figures=figures)


def is_news(figures: Mapping[str, float], closed_on: Mapping[str, float], closed_at: float) -> bool:
    """Whether figures of a firing verdict tell of more than those on which a person closed an incident. A report whose
    time lay ahead of the clock then is no news when the clock has reached it.
    """
    if figures.get("xid_at", 0.0) > max(closed_at, closed_on.get("xid_at", 0.0)):
        return True
    lost, before = (one.get("expected", 0.0) - one.get("visible", 0.0) for one in (figures, closed_on))
    return lost > before or any(name in figures and name not in closed_on for name in _STATES)
