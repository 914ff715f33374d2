"""When jobs last took more GPU memory: one that still loads is not judged yet.

Kept from pass to pass: the highest reading so far is asked for anyway, and that it rose is seen at the next pass. After
a restart the first reading is a start, not growth.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from dutycycle_alerter.memory_growth import Highs
from dutycycle_alerter.sources.prometheus.columns import Cells
from dutycycle_alerter.sources.prometheus.identity import JobKey, Key, Known


@dataclass(slots=True)
class _Run:
    at: float
    highs: dict[Key, Highs] = field(default_factory=dict)


class Loading:
    """The highest memory of young jobs' GPUs, and when it last rose."""

    def __init__(self) -> None:
        self._runs: dict[JobKey, _Run] = {}

    def grew_at(self, job: JobKey) -> float | None:
        """None where it was not seen to rise."""
        run = self._runs.get(job)
        grew = () if run is None else (highs.grew_at() for highs in run.highs.values())
        return max((at for at in grew if at is not None), default=None)

    def watch(self, job: Known, start: float, used: Cells, total: Cells, at: float) -> None:
        """Take a young job's readings (bytes), in the order of its GPUs. A job that starts anew loads anew."""
        run = self._runs.get(job.key)
        if run is None or start > run.at:
            run = self._runs[job.key] = _Run(at)
        run.at = at
        for (key, _), now, whole in zip(job.held, used, total, strict=True):
            if now is not None:
                run.highs.setdefault(key, Highs()).add(at, now, whole)

    def keep(self, jobs: Set[JobKey]) -> None:
        """Let go of all other jobs."""
        for key in self._runs.keys() - jobs:
            del self._runs[key]
