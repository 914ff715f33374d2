"""A job from its beginning to its end: stretches on its own time, and when it is young enough to be left alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.box.mechanisms.scene import Stretch
from benchmarks.box.mechanisms.track import Floats
from benchmarks.box.model import Job
from benchmarks.box.rules import GRACE, LOADING_GRACE, MINUTE

from .figures import Figures
from .table import Flags

LOOKS_BACK = 120 * MINUTE
"""So far before now is looked for work: the longest window that a batch job is asked about."""

CLEARLY_BEGUN = 0.15
"""Work before a window as a share of that in it: a tenth is asked for, and this is clear."""


@dataclass(frozen=True)
class Life:
    """`bounds` are the times between its stretches, its beginning and its end."""

    job: Job
    stretches: Sequence[Stretch]
    bounds: Floats
    figures: Figures

    @property
    def length(self) -> float:
        return float(self.bounds[-1])

    def overlap(self, since: float, until: float) -> list[tuple[Stretch, float]]:
        """Stretches within a time, each with the share of it that lies there."""
        found = []
        for stretch, start, end in zip(self.stretches, self.bounds[:-1], self.bounds[1:], strict=True):
            common = min(end, until) - max(start, since)
            if common > 0:
                found.append((stretch, common / stretch.seconds))
        return found

    def changes(self) -> list[float]:
        """When what goes on in the job changed."""
        return [float(at) for at in self.bounds[:-1]]

    def first_process(self) -> float | None:
        for stretch, start in zip(self.stretches, self.bounds[:-1], strict=True):
            if any(held.kernels is not None for held in stretch.held):
                return float(start)
        return None

    def ready(self, ends: Floats, window: float, *, surely: bool) -> Flags:
        """Which windows lie after grace; `surely`, even if memory may have grown for as long as is waited for."""
        first = self.first_process()
        grace = GRACE[self.job.partition]
        grows = any(held.growth > 0 for stretch in self.stretches for held in stretch.held)
        if surely and grows:
            grace = max(grace, LOADING_GRACE)
        began = np.zeros_like(ends) if first is None else np.where(ends >= first, first, 0.0)
        return ends - window >= began + grace

    def at_work(self, ends: Floats, window: float) -> Flags:
        """Before which windows the GPUs had clearly begun to work: what loads until then is stalled by no one."""
        busy = self.figures.busy.mean(axis=0)
        at = self.figures.at
        begins, back = ends - window, np.maximum(0.0, ends - LOOKS_BACK)
        before = np.interp(begins, at, busy) - np.interp(back, at, busy)
        within = np.interp(ends, at, busy) - np.interp(begins, at, busy)
        return before * window >= CLEARLY_BEGUN * within * (begins - back)
