"""What no signal of a node can tell: GPUs that a rule is not evaluable on, and loss that no rule sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from benchmarks.box.mechanisms.scene import Stretch
from benchmarks.box.mechanisms.track import ACTIVITIES, Floats, code
from benchmarks.box.model import Condition, Job

from .life import Life
from .table import MINUTE, RULES

NO_GPM = "its GPUs have no counters of multiprocessors (GPM): they are older than Hopper"
TOO_SHORT = "it is over before grace and a window are"
A_DAY = "a server is judged over 24 hours"

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
    """Loss by the ledger that no rule of the table sees even nearly, between one change of the job and the next."""
    told = []
    for since, until in pairwise([*life.changes(), life.length]):
        if until - since < SHORTEST or any(one.since < until and one.until > since for one in found):
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
        told.append(
            Condition(
                rule, causes, since, until, must=False, silent=_why(life, rule, activity, until), step=stretch.step
            )
        )
    return told


def _why(life: Life, rule: str, activity: str, until: float) -> str:
    if life.job.partition == "serving":
        return A_DAY
    first = life.first_process() or 0.0
    window = RULES[rule].window
    ready = life.ready(np.array([until]), window, surely=True)
    return _WHY.get(activity, TOO_SHORT) if until - first > window and ready.all() else TOO_SHORT


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
        for activity in _left_alone(life, stretch):
            waited[code(activity)] = 0.0
        lost += share * waited
    return lost


def _left_alone(life: Life, stretch: Stretch) -> Iterator[str]:
    """What wastes nothing: a start, somebody who thinks, a rest between parts of a work, a server that is called."""
    yield "start_up"
    if "person" not in stretch.blame:
        yield "person"
    if life.job.partition != "serving" or stretch.resident.sum() > 0:
        yield "request"


def _busiest(stretch: Stretch) -> float:
    """Of the GPUs that run something, the highest share of active multiprocessors."""
    return max((held.kernels.sm for held in stretch.held if held.kernels is not None), default=0.0)
