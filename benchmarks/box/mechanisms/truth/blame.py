"""Who is to blame, by the ledger of what GPUs did and waited for."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from benchmarks.box.mechanisms.scene import Stretch
from benchmarks.box.mechanisms.track import ACTIVITIES, Floats, code

SHARED = 0.25
"""A second mechanism is named where it has this share of the loss."""

WAITED = ("loader", "collective", "launch", "checkpoint", "evaluation", "hang", "nothing", "person")
OVER_REQUEST = frozenset(("over-request",))

NATURAL = {
    "hung": {"hang"},
    "stalled": {"data loading", "communication or straggler", "small work per step", "throttling"},
    "uneven": {"communication or straggler", "data loading", "throttling", "checkpoint or evaluation pauses"},
    "low_sm_activity": {"small work per step", "memory-bound", "communication or straggler", "hang"},
}
"""What a rule is there for. Where it holds for another cause it may be told, and need not be; others have no limits."""


def causes(rule: str, life: Iterable[tuple[Stretch, float]]) -> tuple[frozenset[str], frozenset[str]]:
    """What took the GPUs' time, of stretches each with a share of it: the greatest part with whatever comes near it,
    and the greatest part alone. None where that was nobody's fault, as starting up is.
    """
    lost: dict[frozenset[str], float] = {}
    for stretch, share in life:
        for activity, seconds in zip(ACTIVITIES, _lost(rule, stretch), strict=True):
            if seconds <= 0:
                continue
            found = stretch.causes(activity)
            if rule == "partially_idle" and activity == "nothing":
                found = OVER_REQUEST
            late = stretch.for_loader if activity == "collective" else 0.0
            lost[found] = lost.get(found, 0.0) + float(seconds) * share * (1 - late)
            if late:
                # Who comes late for want of data is a straggler all the same, where it shows as one.
                starved = stretch.causes("loader") | (found if rule == "uneven" else frozenset())
                lost[starved] = lost.get(starved, 0.0) + float(seconds) * share * late
    total = sum(lost.values())
    some = frozenset().union(*(found for found, seconds in lost.items() if seconds >= SHARED * total))
    # What is nobody's fault is no cause, however much of the time it took.
    named = {found: seconds for found, seconds in lost.items() if found and found <= some}
    return some, max(named, key=lambda found: named[found], default=frozenset())


def natural(rule: str, found: frozenset[str]) -> bool:
    """Whether a rule is there for such a cause."""
    return rule not in NATURAL or not found.isdisjoint(NATURAL[rule])


def _lost(rule: str, stretch: Stretch) -> Floats:
    if rule == "hung":
        return stretch.resident * _of("hang", "nothing")
    if rule == "low_sm_activity":
        return hardly_used(stretch)
    # A few per cent between the kernels of a step are nobody's wait.
    waited = (stretch.spent - stretch.resident) * (1 - _of("computing"))
    if rule == "uneven":
        # Whoever spins waits for the others, too.
        waited = waited + stretch.resident * _of("collective")
    return waited


def hardly_used(stretch: Stretch) -> Floats:
    """Seconds by activity with kernels that leave most of the GPU alone: those that spin, those that are tiny, and
    computing where the mechanism blames it.
    """
    counted = _of("launch", "nothing", "collective", "hang")
    if "computing" in stretch.blame:
        counted = counted + _of("computing")
    return stretch.resident * counted


def _of(*activities: str) -> Floats:
    chosen = np.zeros(len(ACTIVITIES))
    chosen[[code(activity) for activity in activities]] = 1.0
    return chosen
