"""Readings of a device's counters, one after another, as mean rates of the time between. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """A counter's mean increase per second from one reading to the next."""

    start: float
    end: float
    per_second: float


class Meter:
    """Remembers a counter's last reading."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    @property
    def until(self) -> float | None:
        """When that was; None where there was none, or it is not known."""
        return None if self._last is None else self._last[0]

    def read(self, t: float, value: float | None) -> Rate | None:
        """The rate since the previous reading; None at the first, and where the counter went back or is not known."""
        last, self._last = self._last, None if value is None else (t, value)
        if last is None or value is None or value < last[1] or t <= last[0]:
            return None
        return Rate(last[0], t, (value - last[1]) / (t - last[0]))
