"""What no signal of a node can tell: GPUs that a rule is not evaluable on, and loss that no rule sees."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.box.mechanisms.track import ACTIVITIES, code
from benchmarks.box.model import Condition, Job

if TYPE_CHECKING:
    from .conditions import Life

NO_GPM = "its GPUs have no counters of multiprocessors (GPM): they are older than Hopper"

LOSS = 0.30
"""A job that loses this share of its GPUs' time, for an hour, is not well, whether a rule sees it or not."""

LONG = 3600.0

_RULE = {
    "loader": "stalled",
    "collective": "uneven",
    "launch": "underused",
    "checkpoint": "underused",
    "evaluation": "underused",
}
_WHY = {
    "loader": "its gaps are shorter than two samples, and neither CPU nor pressure shows the wait",
    "collective": "ranks that wait in a collective spin: utilization is near 100 % on all of them",
    "launch": "launches leave gaps of milliseconds: utilization is in the middle, and no sample is idle",
    "checkpoint": "its pauses are longer than a stall and leave utilization over what is called underused",
    "evaluation": "its pauses are longer than a stall and leave utilization over what is called underused",
}


def unseen(rule: str, job: Job) -> str:
    """Why a rule cannot be judged on this job; empty where it can."""
    return NO_GPM if rule == "low_sm_activity" and job.model == "A100" else ""


def untold(life: Life, found: Sequence[Condition]) -> list[Condition]:
    """Loss by the ledger that lasts, and that no rule of the table sees even nearly."""
    if life.job.partition != "batch":
        return []
    told = []
    marks = [*life.changes(), life.length]
    for since, until in itertools.pairwise(marks):
        if until - since < LONG or any(one.since < until and one.until > since for one in found):
            continue
        lost = np.zeros(len(ACTIVITIES))
        for stretch, share in life.overlap(since, until):
            lost += share * (stretch.spent - stretch.resident)
            lost[code("collective")] += share * stretch.resident[code("collective")]
        activity = ACTIVITIES[int(lost.argmax())]
        if lost.max() < LOSS * (until - since) * len(life.job.gpus) or activity not in _RULE:
            continue
        stretch = life.overlap(since, until)[0][0]
        told.append(
            Condition(
                _RULE[activity],
                stretch.causes(activity),
                since,
                until,
                must=False,
                silent=_WHY[activity],
                step=stretch.step,
            )
        )
    return told
