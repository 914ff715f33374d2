"""Which GPUs take too long to answer: one must not hold up the others.

Where a GPU's firmware does not answer (XID 119), each call about it fails after seconds, and a turn makes a dozen and
more of them: the child would be replaced before it has told anything of the GPUs that are well. By index, as such a GPU
may not even say who it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from dutycycle_exporter.listening import START_UP
from dutycycle_exporter.nvml.calls import Calls

_REST = 60.0
"""Seconds, before division by the time scale, for which a GPU is left alone that took too long twice in a row: the
first time, it may have been the machine that stood still.
"""


class SlowGpus:
    """Gives each GPU its time. Those that took too long are asked again one a turn, whoever has waited longest."""

    def __init__(self, calls: Calls, *, timeout: float, time_scale: float, timer: Callable[[], float]) -> None:
        """`timeout` is how many seconds a turn may last beyond its interval: a quarter of it is a GPU's, and who is not
        begun with in half of it has to wait for the next turn, and is among the first there. (Who is asked last has
        a quarter more.)
        """
        self._calls = calls
        self._timer = timer
        self._budget = timeout / 4
        self._rest = _REST / time_scale
        self._within = timeout / 2
        self._first = True
        self._began = self._at = 0.0
        self._until: dict[int, float] = {}
        """Until when each GPU is left alone that took too long."""
        self._due: int | None = None
        self._waited: set[int] = set()
        """Those for which there is no time in this turn."""
        self._foremost: set[int] = set()
        """Those for which there was none in the turn before."""
        self.resting: set[int] = set()
        """Those that took too long again when they were asked once more."""

    def begin(self, at: float) -> None:
        """A turn begins, at `at` by the clock that nobody sets."""
        self._began, self._at = self._timer(), at
        self._foremost, self._waited = self._waited, set()
        due = {index: until for index, until in self._until.items() if until < at}
        self._due = min(due, key=lambda index: due[index], default=None)
        if self._due is not None:
            # Who says nothing this time goes to the end of the queue.
            self._until[self._due] = at

    def end(self) -> None:
        """The turn has ended, and the next has less time: only in the first NVML may have to bring up every GPU."""
        self._first = False

    def in_order(self, indexes: Iterable[int]) -> list[int]:
        """Whom to ask first in this turn: those that have waited, and at last, as nobody waits for them, those that
        took too long the last time.
        """
        return sorted(indexes, key=lambda index: (index in self._until, index not in self._foremost, index))

    def admits(self, index: int, *, late: bool = False) -> bool:
        """Whether a GPU may be asked now. `late`: it is asked after all others, who have their time before it."""
        if index in self._until and index != self._due:
            return False
        within = self._within + (self._budget if late else 0.0)
        if self._timer() - self._began <= (START_UP if self._first else within):
            return True
        self._waited.add(index)
        self._calls.note("nvmlDeviceGetSamples", "out_of_time")
        return False

    @contextmanager
    def asking(self, index: int, *, whole: bool = False, anew: bool = False) -> Iterator[None]:
        """Around the calls about one GPU: those beyond its time are not made. `whole`: they are all of a turn's.
        `anew`: it may have to be brought up, as all have in the first turn.
        """
        with self._calls.within(max(self._budget, START_UP / 4) if self._first or anew else self._budget):
            try:
                yield
            finally:
                if self._calls.spent:
                    self._strike(index)
                elif whole:
                    self._until.pop(index, None)
                    self.resting.discard(index)

    def admits_poll(self, index: int, began: float) -> bool:
        """Return whether to poll a GPU between two turns. `began` is when the poll of all GPUs began, by the timer.

        A GPU that took too long is left to the turns, and a poll lasts no longer than one GPU's time.
        """
        return index not in self._until and self._timer() - began <= self._budget

    def forget(self) -> None:
        """Numbers mean other GPUs now."""
        self._until.clear()
        self._waited.clear()
        self._foremost.clear()
        self.resting.clear()
        self._due = None

    def _strike(self, index: int) -> None:
        if index in self._until:
            self.resting.add(index)
            self._until[index] = self._at + self._rest
        else:
            self._until[index] = self._at
        self._due = None
