"""What a report at a job's end must say of its memory: DESIGN's rule on exact figures, with a margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.box.mechanisms.scene import GIB, Stretch
from benchmarks.box.model import Condition, Job
from benchmarks.box.rules import HOUR
from tests.fakes.nvml import models

RULE = "memory_underused"


@dataclass(frozen=True)
class _Bounds:
    peak: float
    use: float
    shortest: float


CLEAR = _Bounds(0.22, 0.47, 1.1 * HOUR)
NEAR = _Bounds(0.28, 0.53, 0.9 * HOUR)
"""A job of under an hour is not reported."""


def reports(job: Job, stretches: Sequence[Stretch]) -> tuple[Condition, ...]:
    """Of batch jobs. `memory_pressure` and `overallocated` are not judged: no mechanism has what they ask for."""
    if job.partition != "batch":
        return ()
    length = sum(stretch.seconds for stretch in stretches)
    use = sum(float(stretch.resident.sum()) for stretch in stretches) / (length * len(job.gpus))
    memory = getattr(models, job.model).memory
    peak = max(held.memory for stretch in stretches for held in stretch.held) * GIB / memory

    def within(bounds: _Bounds) -> bool:
        return peak < bounds.peak and use < bounds.use and length >= bounds.shortest

    if not within(NEAR):
        return ()
    return (Condition(RULE, frozenset(), 0.0, length, must=within(CLEAR)),)
