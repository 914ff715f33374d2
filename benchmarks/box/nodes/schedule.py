"""When the nodes of a process are read: each once in an interval, evenly spread over it, so that none waits for all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass
class Turn:
    """A node's own place in the interval; `due` is when it is read next. All times in wall seconds."""

    due: float
    interval: float

    def take(self, now: float) -> int:
        """It is read now: how many readings are missing, as the next one was due, too.

        It keeps its place. Nodes that waited together would else be read in one go ever after.
        """
        missed = max(0, int((now - self.due) / self.interval))
        self.due += (1 + missed) * self.interval
        return missed


def turns(names: Iterable[str], interval: float, begin: float) -> dict[str, Turn]:
    """By node, in the order of their turns, the first at `begin`."""
    known = list(names)
    return {name: Turn(begin + place * interval / len(known), interval) for place, name in enumerate(known)}
