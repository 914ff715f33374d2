"""The running integral of a recorded quantity: power to energy, cores to CPU time, pressure to time under pressure."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable


class Integral:
    """Of values over stretches of time (start, end, value); where stretches overlap the first counts.

    NaN is a value that nobody knows: over it, and between stretches, the integral stands still. So a counter made of it
    never falls, and gives the same at an instant whoever asks and whenever.
    """

    def __init__(self, stretches: Iterable[tuple[float, float, float]]) -> None:
        self._starts, self._ends, self._values = array("d"), array("d"), array("d")
        self._sums = array("d")
        total, covered = 0.0, -math.inf
        for start, end, value in sorted(stretches):
            begin = max(start, covered)
            if math.isnan(value) or end <= begin:
                continue
            self._starts.append(begin)
            self._ends.append(end)
            self._values.append(value)
            self._sums.append(total)
            total += (end - begin) * value
            covered = end

    def at(self, t: float) -> float | None:
        """The integral up to `t`; None where no value is known at any time."""
        if not self._starts:
            return None
        i = bisect_right(self._starts, t) - 1
        if i < 0:
            return 0.0
        return self._sums[i] + (min(t, self._ends[i]) - self._starts[i]) * self._values[i]
