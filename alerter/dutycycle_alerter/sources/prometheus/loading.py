"""When jobs last took more GPU memory: one that still loads is not judged yet.

Kept from pass to pass: the highest reading so far is asked for anyway, and that it rose is seen at the next pass. After
a restart the first reading is a start, not growth.
"""

from __future__ import annotations

from collections.abc import Set

from dutycycle_alerter.sources.prometheus.columns import Cells
from dutycycle_alerter.sources.prometheus.identity import JobKey, Key, Known
from dutycycle_alerter.window_usage import MEMORY_GROWTH


class Loading:
    """The highest memory of young jobs' GPUs, and when it last rose."""

    def __init__(self) -> None:
        self._peaks: dict[JobKey, dict[Key, float]] = {}
        self._grew: dict[JobKey, float] = {}

    def grew_at(self, job: JobKey) -> float | None:
        """None where it was not seen to rise."""
        return self._grew.get(job)

    def watch(self, job: Known, used: Cells, total: Cells, at: float) -> None:
        """Take a young job's readings (bytes), in the order of its GPUs."""
        peaks = self._peaks.setdefault(job.key, {})
        for (key, _), now, whole in zip(job.held, used, total, strict=True):
            if now is None:
                continue
            peak = peaks.get(key)
            if peak is not None and now > peak + MEMORY_GROWTH * (whole or now):
                self._grew[job.key] = at
            if peak is None or now > peak + MEMORY_GROWTH * (whole or now):
                peaks[key] = now

    def keep(self, jobs: Set[JobKey]) -> None:
        """Let go of all other jobs."""
        for key in self._peaks.keys() - jobs:
            del self._peaks[key]
            self._grew.pop(key, None)
