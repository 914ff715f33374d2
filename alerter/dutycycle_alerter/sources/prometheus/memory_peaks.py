"""The most GPU memory of each job since it began: a window is shorter than many a life.

Kept from pass to pass, of readings that are made anyway. After a restart nothing is known of what lies before the
window of the first reading.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from dutycycle_alerter.model import MemoryPeak, highest
from dutycycle_alerter.sources.prometheus.columns import Cells
from dutycycle_alerter.sources.prometheus.identity import JobKey


@dataclass(frozen=True, slots=True)
class _Read:
    """When last; whether each moment since the run began lies in the window of some reading."""

    at: float
    whole: bool
    peak: MemoryPeak


class MemoryPeaks:
    """Each reading is the most over the last `window` wall seconds."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._read: dict[JobKey, _Read] = {}

    def of(self, job: JobKey) -> MemoryPeak | None:
        """None where some of its life was not read."""
        read = self._read.get(job)
        return read.peak if read is not None and read.whole else None

    def take(self, job: JobKey, start: float, used: Cells, total: Cells, at: float) -> None:
        """A job's readings (bytes) of each of its GPUs; one that lacks any is none.

        Only a `start` after the reading before is another run's: of one run it moves a little from pass to pass. One
        that is as early as the window reaches may be earlier in truth.
        """
        pairs = [(now, whole) for now, whole in zip(used, total, strict=True) if now is not None and whole]
        if not pairs or len(pairs) < len(used):
            return
        peak = MemoryPeak(max(now for now, _ in pairs), max(now / whole for now, whole in pairs))
        before = self._read.get(job)
        if before is None or start > before.at:
            self._read[job] = _Read(at, at - start < self._window, peak)
            return
        whole = before.whole and at - before.at <= self._window
        self._read[job] = _Read(at, whole, highest((before.peak, peak)))

    def keep(self, jobs: Set[JobKey]) -> None:
        """Let go of all other jobs."""
        for key in self._read.keys() - jobs:
            del self._read[key]
