"""`hung`: GPUs that spin without working, and the others of the job wait for them."""

from __future__ import annotations

from collections.abc import Sequence

from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.model import JobKind, Usage
from dutycycle_alerter.rules.case import Case
from dutycycle_alerter.rules.units import activity, link_rate, power_level
from dutycycle_alerter.rules.verdict import Outcome, Verdict
from dutycycle_alerter.settings.job_rules import Hung


def judge_hung(case: Case) -> Verdict:
    """Every GPU spins (busy all the time, at hardly more than idle power) or does nothing, and at least one spins.

    Clears as soon as one GPU does neither, or none spins any more: then the job is idle, and that rule says so.
    Critical only where the counters of tensor cores, memory or links confirm it; power alone may be a small model's.
    """
    rule, settings = "hung", case.settings.rules.hung
    if case.job.kind is not JobKind.BATCH:
        return Verdict(rule, Outcome.NOT_APPLICABLE, settings.window)
    if unready := case.unready(rule, settings.window):
        return unready
    values = case.utilizations(settings.window)
    at_work = any(settings.idle_below < value < settings.spinning_at_least for value in values)
    if at_work or max(values) < settings.spinning_at_least:
        return Verdict(rule, Outcome.CLEAR, settings.window)
    busy = [
        usage
        for usage, value in zip(case.window(settings.window).gpus, values, strict=True)
        if value >= settings.spinning_at_least
    ]
    levels = [power_level(usage) for usage in busy]
    known = [level for level in levels if level is not None]
    if any(level > settings.power_share for level in known):
        return Verdict(rule, Outcome.CLEAR, settings.window, figures={"power_level": max(known)})
    if len(known) < len(levels):
        reason = "the power of its GPUs, or what they draw when idle and at most, is not known"
        return Verdict(rule, Outcome.NOT_EVALUABLE, settings.window, reason=reason)
    figures = {
        "spinning_gpus": float(len(busy)),
        "gpus": float(len(values)),
        # A little under what was learned as idle power is idle power.
        "power_level": max(0.0, *known),
        **_activities(busy),
    }
    severity = Severity.CRITICAL if confirms(figures, settings) else Severity.WARNING
    return Verdict(rule, Outcome.FIRING, settings.window, severity, case.job.gpus, figures)


def confirms(figures: dict[str, float], settings: Hung) -> bool | None:
    """Whether the counters say that nothing is computed or moved; None where there are none. One that is active
    denies it, whatever the others say.
    """
    quiet = [figures[unit] <= settings.active_below for unit in ("tensor_active", "dram_active") if unit in figures]
    if "link_bytes_per_second" in figures:
        quiet.append(figures["link_bytes_per_second"] <= settings.link_bytes_below)
    return all(quiet) if quiet else None


def _activities(usages: Sequence[Usage]) -> dict[str, float]:
    """The highest of each counter over the GPUs; left out where any of them does not know it."""
    found = {}
    for name, values in (
        ("sm_active", [activity(usage, "sm") for usage in usages]),
        ("tensor_active", [activity(usage, "tensor") for usage in usages]),
        ("dram_active", [activity(usage, "dram") for usage in usages]),
        ("link_bytes_per_second", [link_rate(usage) for usage in usages]),
    ):
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            found[name] = max(known)
    return found
