"""What is wrong in one line, for titles, lists and subjects: it says how many GPUs, never why."""

from __future__ import annotations

from dutycycle_alerter.incidents.model import Incident

_SAYS = {
    # rule: (what one GPU does, what several do)
    "hung": ("spins without working", "spin or wait without working"),
    "idle": ("is idle", "are idle"),
    "partially_idle": ("is idle", "are idle"),
    "stalled": ("keeps waiting for work", "keep waiting for work"),
    "uneven": ("lags behind", "lag behind"),
    "low_sm_activity": ("looks busy and hardly computes", "look busy and hardly compute"),
    "underused": ("is hardly used", "are hardly used"),
    "memory_underused": ("had most of its memory unused", "had most of their memory unused"),
    "memory_pressure": ("ran with its memory full", "ran with their memory full"),
}


def headline(incident: Incident) -> str:
    """`All 8 GPUs are idle`, `4 of 8 GPUs are idle`, `The GPU keeps waiting for work`; no text from outside in it."""
    one, several = _SAYS.get(
        incident.rule, (f"shows “{rule_name(incident.rule)}”", f"show “{rule_name(incident.rule)}”")
    )
    if incident.rule == "overallocated":
        return "The job asked for far more than it used"
    concerned, whole = len(incident.gpus), max(incident.job_gpus, len(incident.gpus))
    if incident.rule == "uneven" and 2 * concerned > whole:
        # Where most lag behind a few, it may be the few that hold them up.
        return f"The {whole} GPUs work unevenly"
    if whole <= 1:
        return f"The GPU {one}"
    if concerned == whole:
        return f"All {whole} GPUs {several}" if whole > 2 else f"Both GPUs {several}"
    return f"{concerned} of {whole} GPUs {one if concerned == 1 else several}"


def rule_name(rule: str) -> str:
    """The rule's name for people: `partially idle`."""
    return rule.replace("_", " ")
