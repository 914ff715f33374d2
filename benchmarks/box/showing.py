"""Where a run of many seeds is: a bar on a terminal; anywhere a line as a seed ends, with the time that it took."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from dutycycle_alerter.scale import format_duration

from .scoring.table import clock


class Showing:
    """A context manager. `seeds` is how many are to be played, and `scale` how many times as fast as they are told."""

    def __init__(self, console: Console, seeds: int, scale: float, now: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._seeds = seeds
        self._scale = scale
        self._now = now
        self._took: list[float] = []
        self._name = ""
        self._length = self._began = 0.0
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[where]}"))
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=None, where="", visible=False)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, seed: int, jobs: int, length: float) -> None:
        """A seed of so many jobs and seconds of the scenario."""
        self._name = f"seed {seed} ({len(self._took) + 1} of {self._seeds})"
        self._length, self._began = length, self._now()
        if not self._console.is_terminal:
            self.say(f"{jobs} jobs")
        self._bar.reset(self._task, total=length, visible=True)
        self.tell(0.0, "")

    def tell(self, at: float, what: str) -> None:
        """The scenario's time, and what goes on beside playing."""
        at = min(max(0.0, at), self._length)
        self._bar.update(
            self._task,
            completed=at,
            description=f"{self._name}: {what}" if what else self._name,
            where=f"{clock(at)} of {clock(self._length)}, {format_duration(self._left(at))} remain",
        )

    def say(self, what: str) -> None:
        """A line of its own about the seed."""
        self._console.print(f"{self._name}: {what}", soft_wrap=True, highlight=False)

    def end(self) -> None:
        """The seed has been played."""
        self._took.append(self._now() - self._began)
        left = f", {format_duration(self._left(0.0))} remain" if len(self._took) < self._seeds else ""
        self.say(f"played in {format_duration(self._took[-1])}{left}")
        self._bar.update(self._task, visible=False)

    def _left(self, at: float) -> float:
        """Seconds until all are played, where those to come take as long as those before."""
        usual = sum(self._took) / len(self._took) if self._took else self._length / self._scale
        return usual * (self._seeds - len(self._took) - at / self._length)
