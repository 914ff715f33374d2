"""Keeps a process that lives for months as small as it was."""

from __future__ import annotations

import gc

from dutycycle_exporter import allocator

_EVERY = 500
"""Turns from one time to the next: some 40 minutes at the usual interval."""


class Memory:
    """Counts turns, and now and then takes some milliseconds to give back what Python and the allocator keep for later.

    Python keeps tuples that are free, up to 2,000 of each length, and what is made from generators fills that in the
    course of days; only a full collection empties it, which hardly ever comes by itself where next to nothing is left
    behind. The allocator gives back by itself what is free at the end of its heap, and nothing that is free in its
    midst.
    """

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns = 0

    def turn(self) -> None:
        """One more snapshot is done."""
        self._turns += 1
        if self._turns % _EVERY == 0:
            gc.collect()
            allocator.trim()
