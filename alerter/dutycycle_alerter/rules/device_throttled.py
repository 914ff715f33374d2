"""`throttled`: the hardware holds a GPU's clocks down."""

from __future__ import annotations

from collections.abc import Mapping

from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.model import GpuEvidence
from dutycycle_alerter.rules.device_case import exempt, unseen, unwatched
from dutycycle_alerter.rules.verdict import Outcome, Verdict
from dutycycle_alerter.settings import Judging

RULE = "throttled"

_NOTHING: Mapping[str, float] = {}


def judge_throttled(evidence: GpuEvidence, settings: Judging, opened_on: Mapping[str, float] = _NOTHING) -> Verdict:
    """One GPU: a warning where heat or the power brake takes a share of its time, information where it runs at its
    power limit. `opened_on` are the figures of its open incident: what opened it must be known to be over.
    """
    rules = settings.rules.throttled
    length = rules.window
    undecided = (
        exempt(RULE, evidence, length, enabled=rules.enabled, whole="clocks are the whole GPU's")
        or unseen(RULE, evidence, length)
        or unwatched(RULE, evidence, length)
    )
    if undecided:
        return undecided
    window = evidence.window(length)
    heat, capped = window.throttle_thermal, window.throttle_power
    figures = {name: share for name, share in (("thermal", heat), ("power_cap", capped)) if share is not None}
    if heat is not None and heat >= rules.thermal:
        return Verdict(RULE, Outcome.FIRING, length, Severity.WARNING, (evidence.gpu,), figures)
    if capped is not None and capped >= rules.power_cap:
        return Verdict(RULE, Outcome.FIRING, length, Severity.INFO, (evidence.gpu,), figures)
    if heat is None or (capped is None and "power_cap" in opened_on):
        return Verdict(RULE, Outcome.UNKNOWN, length, reason="its throttling is not reported", figures=figures)
    over = heat < rules.clear_below and (capped is None or capped < rules.clear_power_cap)
    return Verdict(RULE, Outcome.CLEAR if over else Outcome.HOLDING, length, figures=figures)


def heat_is_over(verdict: Verdict, severity: Severity, settings: Judging) -> bool:
    """Whether an incident of this severity has lost what it was about: a warning is about heat, and the power limit, at
    which a GPU may work for weeks, does not keep it open.
    """
    heat = verdict.figures.get("thermal")
    warned = verdict.rule == RULE and severity is not Severity.INFO
    return warned and heat is not None and heat < settings.rules.throttled.clear_below
