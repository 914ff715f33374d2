"""Counters of bytes that wrap at 32 bits, made into ones that do not.

A PCIe link carries 4 GiB in less than the time between two turns, so a counter's difference alone tells the bytes but
for a multiple of 2^32. GPM's mean rate over the same time tells which multiple. Without it nothing is told: a number
that is too low by nobody knows how much is worse than none.
"""

from __future__ import annotations

_WRAP = 2**32


class ByteCount:
    """One direction of one GPU's link. Counts from 0 on, so that a child that is replaced begins a new counter."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._last_t = 0.0
        self._total = 0.0
        self._wide = False

    def read(self, now: float, value: float, rate: float | None) -> float | None:
        """The bytes until `now`, when the device's counter is at `value`; `rate` is in bytes per second, if known.

        None where the counter may have wrapped unseen; the bytes since the reading before are then not counted later.
        """
        last, last_t = self._last, self._last_t
        self._last, self._last_t = value, now
        self._wide = self._wide or value >= _WRAP
        if last is None:
            return 0.0 if self._wide else None
        if self._wide:
            # One of 64 bits that went back began anew.
            self._total += value - last if value >= last else value
            return self._total
        if rate is None:
            return None
        carried = (value - last) % _WRAP
        self._total += carried + _WRAP * max(0, round((rate * (now - last_t) - carried) / _WRAP))
        return self._total
