"""When a rule can tell of a condition at first, and until when: what the scorer takes for known of the rules."""

from __future__ import annotations

from benchmarks.box.rules import CLEARING, GRACE, MINUTE, SERVING_WINDOW, WINDOW

SETTLING = 5 * MINUTE
"""What is on its way when a run ends: scrapes, two passes, one of them late."""

BESIDE = {"stalled": ("underused",)}
"""Rules under which a condition is rightly told, too: whoever waits for data computes little."""

REPORTS = frozenset({"memory_underused", "memory_pressure", "overallocated"})
REPORTED = frozenset({"memory_underused"})
"""Those of which the truth knows."""
CRITICAL_XIDS = frozenset({48, 62, 64, 74, 79, 95, 119, 120})


JUDGED = {
    "batch": ("hung", "idle", "partially_idle", "stalled", "uneven", "low_sm_activity", "underused"),
    "interactive": ("idle", "partially_idle"),
    "serving": ("idle",),
}
"""The rules for each kind of job."""


def window(rule: str, partition: str) -> float:
    """How long a condition lasts before its rule can open."""
    return SERVING_WINDOW if partition == "serving" and rule == "idle" else WINDOW.get(rule, 0.0)


def earliest(rule: str, since: float, partition: str) -> float:
    """When a rule can open at the earliest, in seconds of the job's life; memory that grows may move it on."""
    return max(since, GRACE.get(partition, GRACE["batch"])) + window(rule, partition)


def first_word(partition: str) -> float:
    """The youngest at which anything can be told of a job, in seconds of its life."""
    return min(earliest(rule, 0.0, partition) for rule in JUDGED[partition])


def opening(rule: str, partition: str) -> float:
    """For how long after its end a condition still is in the rule's windows, so that its incident may open."""
    return float("inf") if rule in REPORTS else window(rule, partition) + SETTLING


def lingering(rule: str, partition: str) -> float:
    """For how long after its end an incident of it may be open: it clears after that, and opens no more."""
    return opening(rule, partition) + CLEARING.get(rule, 0.0)


def step_bin(step: float | None) -> str:
    """The bin of a step's length."""
    if step is None:
        return "no steps"
    return "under 2 s" if step < 2 else "2 to 30 s" if step <= 30 else "over 30 s"


STEP_BINS = ("under 2 s", "2 to 30 s", "over 30 s", "no steps")
