"""A job that was started on the double: what can still be done to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from .patterns import Pattern
from .timeline import Load, Run

Place = int | tuple[int, int]
"""A GPU by its slot, or a MIG instance by its GPU's slot and its own index there."""


class Change:
    """While entered, no time passes for the double; on leaving, what was changed becomes visible at once."""

    def __init__(self, begin: Callable[[], int], end: Callable[[], None]) -> None:
        self._begin = begin
        self._end = end

    def __enter__(self) -> int:
        return self._begin()

    def __exit__(self, *_: object) -> None:
        self._end()


class Runner(Protocol):
    """What jobs need of their driver."""

    def changing(self) -> Change:
        """A change of the double."""

    def add_run(self, place: Place, run: Run) -> Run:
        """Lets a run begin; inside a change."""


class Job:
    """A job that was started: what can still be done to it."""

    def __init__(self, driver: Runner, name: str, runs: dict[Place, Run]) -> None:
        self.name = name
        self.started_us = min((run.start_us for run in runs.values()), default=0)
        self._driver = driver
        self._runs = runs

    @property
    def gpus(self) -> list[int]:
        return sorted({place if isinstance(place, int) else place[0] for place in self._runs})

    def change(self, pattern: Pattern, gpu: Place | None = None, *, power_factor: float | None = None) -> None:
        """From now on another pattern (from its beginning) on one GPU or instance of the job, or on all of them."""
        with self._driver.changing() as now_us:
            for place in list(self._runs) if gpu is None else [gpu]:
                load = replace(self._runs[place].load, pattern=pattern)
                if power_factor is not None:
                    load = replace(load, power_factor=power_factor)
                self._replace(place, load, now_us)

    def change_load(self, gpu: Place, load: Load) -> None:
        """From now on another load on one GPU or instance: other processes, other memory, other activity."""
        with self._driver.changing() as now_us:
            self._replace(gpu, load, now_us)

    def stop(self) -> None:
        """Ends the job, and with it its processes."""
        with self._driver.changing() as now_us:
            for run in self._runs.values():
                if run.end_us is None:
                    run.end_us = now_us

    def _replace(self, place: Place, load: Load, now_us: int) -> None:
        if self._runs[place].end_us is not None:
            raise RuntimeError(f"{self.name} has ended")
        self._runs[place].end_us = now_us
        self._runs[place] = self._driver.add_run(place, Run(self.name, load, now_us))
