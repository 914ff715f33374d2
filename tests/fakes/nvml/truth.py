"""What really happened on the GPUs, exactly: what a monitor's figures are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from .gpu import Gpu
from .job import Place


class Truth:
    """Times are seconds since the epoch and durations wall seconds, whatever the time scale. GPUs by their slot."""

    def __init__(self, gpus: Sequence[Gpu], lock: AbstractContextManager[object]) -> None:
        self._gpus = gpus
        self._lock = lock

    def busy_seconds(self, gpu: Place, start: float, end: float, job: str | None = None) -> float:
        """Seconds in [start, end) in which a GPU, or one of its present MIG instances, was busy; of one job only, where
        its name is given."""
        with self._lock:
            if isinstance(gpu, int):
                timeline = self._gpus[gpu].timeline
            else:
                timeline = self._gpus[gpu[0]].instances[gpu[1]].timeline
            return timeline.busy_seconds(start * 1e6, end * 1e6, job)

    def energy_joules(self, gpu: int, start: float, end: float) -> float:
        """Energy that a GPU took in [start, end)."""
        with self._lock:
            return self._gpus[gpu].energy_joules(start * 1e6, end * 1e6)
