"""What is lost and need not be told: as no signal of a node can tell it, or as a signal shows it and no rule of the
table is there for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from benchmarks.box.mechanisms.scene import Stretch
from benchmarks.box.mechanisms.track import ACTIVITIES, Floats, code
from benchmarks.box.mechanisms.waste import left_alone
from benchmarks.box.model import Condition, Job
from benchmarks.box.rules import MINUTE

from .life import Life
from .table import RULES

NO_GPM = "GPUs older than Hopper have no counters of multiprocessors (GPM)"
TOO_SHORT = "it is over before grace and a window are"
A_DAY = "a server is judged over 24 hours"
NEARLY = "utilization or power shows it, and no rule comes near it"

LOSS = 0.30
SHORTEST = 10 * MINUTE
"""A job that loses this share of its GPUs' time for so long is not well, whether a rule sees it or not."""

HARDLY = 0.25
"""Kernels with a smaller share of active multiprocessors leave most of the GPU alone."""

_RULE = {
    "computing": "low_sm_activity",
    "loader": "stalled",
    "collective": "uneven",
    "launch": "underused",
    "checkpoint": "underused",
    "evaluation": "underused",
    "nothing": "idle",
    "person": "idle",
    "request": "idle",
    "hang": "hung",
}
_UNRULED = {
    "loader": "waits shorter than two samples, with neither CPU nor pressure high",
    "collective": "ranks that spin in a collective, whose power alone differs",
    "launch": "gaps of milliseconds between kernels, utilization in the middle",
    "checkpoint": "pauses of over 30 s at a stable period, utilization in the middle",
    "evaluation": "pauses of over 30 s at a stable period, utilization in the middle",
}
"""What signals show of a loss for which there is no rule."""


def unseen(rule: str, job: Job) -> str:
    """Why a rule cannot be judged on this job; empty where it can."""
    return NO_GPM if rule == "low_sm_activity" and job.model == "A100" else ""


def untold(life: Life, found: Sequence[Condition]) -> list[Condition]:
    """Loss by the ledger that no rule of the table sees even nearly, between one change of the job and the next."""
    told = []
    parts = pairwise([*life.changes(), life.length])
    for since, until in (left for part in parts for left in _without(*part, found)):
        if until - since < SHORTEST:
            continue
        lost = _lost(life, since, until)
        activity = ACTIVITIES[int(lost.argmax())]
        if lost.max() < LOSS * (until - since) * len(life.job.gpus):
            continue
        stretch = life.overlap(since, until)[0][0]
        causes = stretch.causes(activity)
        if activity == "request":
            # A server that nobody calls holds GPUs as a forgotten notebook does.
            causes = frozenset(("idle notebook",))
        rule = _RULE[activity]
        early = _early(life, rule, since, until)
        silent = "" if early else unseen(rule, life.job)
        unruled = "" if early or silent else _UNRULED.get(activity, NEARLY)
        told.append(
            Condition(rule, causes, since, until, False, silent, stretch.step, early, main=causes, unruled=unruled)
        )
    return told


def _without(since: float, until: float, found: Sequence[Condition]) -> list[tuple[float, float]]:
    """What is left of a time without those of the conditions."""
    left, at = [], since
    for one in sorted(found, key=lambda one: one.since):
        if one.since >= until or one.until <= at:
            continue
        if one.since > at:
            left.append((at, one.since))
        at = one.until
    return [*left, (at, until)] if at < until else left


def _early(life: Life, rule: str, since: float, until: float) -> str:
    """Why nobody asks a rule; empty where one is asked."""
    if life.job.partition == "serving":
        return A_DAY
    window = RULES[rule].window
    begun = max(since, life.first_process() or 0.0)
    ready = life.ready(np.array([until]), window, surely=True)
    return "" if until - begun > window and ready.all() else TOO_SHORT


def _lost(life: Life, since: float, until: float) -> Floats:
    """GPU-seconds by activity; kernels that hardly use the GPU are computing that is lost."""
    lost = np.zeros(len(ACTIVITIES))
    for stretch, share in life.overlap(since, until):
        waited = stretch.spent - stretch.resident
        for activity in ("collective", "hang"):
            waited[code(activity)] = stretch.spent[code(activity)]
        waited[code("computing")] = stretch.resident[code("nothing")]
        if "computing" in stretch.blame and _busiest(stretch) < HARDLY:
            waited[code("computing")] += stretch.resident[code("computing")]
        for activity in left_alone(stretch, life.job.partition):
            waited[code(activity)] = 0.0
        lost += share * waited
    return lost


def _busiest(stretch: Stretch) -> float:
    """Of the GPUs that run something, the highest share of active multiprocessors."""
    return max((held.kernels.sm for held in stretch.held if held.kernels is not None), default=0.0)
