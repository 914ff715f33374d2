"""Whether a job still takes more GPU memory: one that does is still loading."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from math import inf

MEMORY_GROWTH = 0.02
"""Memory that is less than this share of the device's below its highest is a running job's noise."""


class Highs:
    """The new highs of one GPU's memory, in the order of time.

    Memory grew until it first was about as high as it has been since. Growth that counted from one step to the next
    would depend on where the steps are: of memory that wavers, two who read it at different moments would see it grow
    at different times.
    """

    def __init__(self) -> None:
        self._at: list[float] = []
        self._highest: list[float] = []
        self._enough: list[float] = []

    def add(self, at: float, used: float, total: float | None) -> None:
        """A later reading, in bytes; `total` is the device's, None where that is not known."""
        if not self._highest or used > self._highest[-1]:
            self._at.append(at)
            self._highest.append(used)
            self._enough.append(used - MEMORY_GROWTH * (total or used))

    def known(self, until: float = inf) -> bool:
        """Whether there was any reading."""
        return bool(self._at) and self._at[0] <= until

    def grew_at(self, until: float = inf) -> float | None:
        """When memory first was about as high as its highest until then; None where it was so at the first reading."""
        count = bisect_right(self._at, until)
        if count == 0:
            return None
        first = bisect_left(self._highest, self._enough[count - 1], 0, count)
        return self._at[first] if first else None


def last_grew(gpus: Iterable[Highs], start: float, until: float = inf) -> float | None:
    """When the last of a job's GPUs grew; its `start` where none did, None where nothing is known of any until then."""
    known = [highs for highs in gpus if highs.known(until)]
    return max([start, *(at for highs in known if (at := highs.grew_at(until)) is not None)]) if known else None
