"""Readings of a device's counters, one after another, as mean rates of the time between. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """A counter's mean increase per second from one reading to the next."""

    start: float
    end: float
    per_second: float


_PATIENCE = 3
"""Turns one after another at which a counter is not told, after which nobody waits for it any more."""


class Meter:
    """Remembers a counter's last reading, also over turns at which reading it failed: it counted on meanwhile."""

    __slots__ = ("_last", "_missed")

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None
        self._missed = 0

    @property
    def until(self) -> float | None:
        """When it was read last; None where it never was, and where it has not been told for some turns."""
        return None if self._last is None or self._missed >= _PATIENCE else self._last[0]

    def read(self, t: float, value: float) -> Rate | None:
        """The rate since the previous reading; None at the first, and where the counter went back."""
        last, self._last = self._last, (t, value)
        self._missed = 0
        if last is None or value < last[1] or t <= last[0]:
            return None
        return Rate(last[0], t, (value - last[1]) / (t - last[0]))

    def carry(self) -> None:
        """A turn told it as an earlier one read it."""
        self._missed = 0

    def miss(self) -> None:
        """A turn did not tell it."""
        self._missed += 1

    def forget(self) -> None:
        """It did not count on: the next reading is its first."""
        self._last = None
