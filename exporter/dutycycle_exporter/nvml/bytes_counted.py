"""Counters of bytes that wrap at 32 bits, made into ones that do not.

A PCIe link carries 4 GiB in less than the time between two turns, so a counter's difference alone tells the bytes but
for a multiple of 2^32. GPM's mean rate over the same time tells which multiple. Where there is no GPM none is assumed:
what was carried beyond 4 GiB a turn is then missing.
"""

from __future__ import annotations

_WRAP = 2**32


class ByteCount:
    """One direction of one GPU's link. Counts from 0 on, so that a child that is replaced begins a new counter."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._last_t = 0.0
        self._total = 0.0

    def read(self, now: float, value: float, rate: float | None) -> float:
        """The bytes until `now`, when the device's counter is at `value`; `rate` is in bytes per second, if known."""
        if self._last is not None:
            carried = value - self._last
            if carried < 0:
                # It wrapped; one of 64 bits that went back began anew.
                carried = carried + _WRAP if self._last < _WRAP else value
            if rate is not None and value < _WRAP:
                carried += _WRAP * max(0, round((rate * (now - self._last_t) - carried) / _WRAP))
            self._total += carried
        self._last, self._last_t = value, now
        return self._total
