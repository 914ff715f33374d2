"""Counters of bytes of a GPU's links, made into one of them all.

A sum of what the counters are would fall by all that a link ever carried when that link goes down, and whoever scrapes
it would take that for a new counter. So what is summed up is by how much each of them rose.
"""

from __future__ import annotations


class LinkBytes:
    """One direction of one GPU's links. Counts from 0 on, so that a child that is replaced begins a new counter."""

    def __init__(self) -> None:
        self._last: dict[int, float] = {}
        self._total = 0.0

    def read(self, link: int, value: float) -> float:
        """The bytes of all links since each was read first, when that one's counter is at `value`.

        What a link carried while it could not be read is counted when it can be again.
        """
        last = self._last.get(link, value)
        # One that went back began anew.
        self._total += value - last if value >= last else value
        self._last[link] = value
        return self._total
