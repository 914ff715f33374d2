"""From NVML's buffer of utilization samples to spans of measured time. Pure, one instance per GPU.

NVML stamps each sample with the end of its sample period. A sample stands for the time since the one before it; where
that is too long ago (the buffer was overrun, or this is the first), it stands for one period and the rest is a hole.

Some drivers write no samples while a GPU idles. Their rate, which then is 0, stands for that time; and once a GPU was
seen to be silent in this way, a hole that no overrun can explain is idle time, too. Without this a GPU that works every
other second would seem to work all the time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from dutycycle_exporter.model import Span

NOMINAL_PERIOD = 1 / 6
"""Seconds between samples where nothing else is known (about 6 Hz)."""

_LONGEST_PERIOD = 1.0
"""NVML's sample periods are 1/6 to 1 s: what looks longer are holes."""

_JITTER = 3.0
"""Periods that may lie between two samples: more is a hole."""

_LATE = 1.0
"""Seconds by which NVML may show a sample late, whatever the time scale: until then none is missing."""

_REACH = 1.5
"""Poll intervals for which a rate may stand. NVML's buffer holds more than that, so nothing was overrun meanwhile."""

_CLOCK_TOLERANCE = 1.0
"""Seconds by which a timestamp may lie ahead of our own clock."""


_Stretch = list[float]
"""A span that can still grow: its start, its end, percent. Most of a GPU's samples are like the one before."""


class SampleBuffer:
    """Turns the samples of successive polls into spans that do not overlap, and counts what it drops.

    `interval` is the wall time between polls. `dropped` counts by reason; whoever reads it clears it.
    """

    def __init__(self, *, interval: float, time_scale: float = 1.0) -> None:
        self.dropped: Counter[str] = Counter()
        self._reach = _REACH * interval
        self._period = NOMINAL_PERIOD / time_scale
        self._last: float | None = None  # timestamp of the newest sample
        self._covered: float | None = None  # end of the newest span
        self._silent_when_idle = False

    def since(self, now: float) -> int:
        """What to ask NVML for at `now`: samples newer than this, in microseconds; 0 for all that it has.

        After our own clock was set back all starts afresh: nothing would be newer until the old time is reached.
        """
        if self._last is not None and self._last > now + _CLOCK_TOLERANCE:
            self._last = self._covered = None
        return 0 if self._last is None else round(self._last * 1e6)

    def take(self, samples: Sequence[tuple[int, int]], now: float) -> list[Span]:
        """Samples as (microseconds, percent), in NVML's order; those that were taken before are passed over.

        A value over 100 (values up to 10^8 were seen) is dropped, and its time is not measured. A timestamp that goes
        back, or lies in the future, is dropped as well.
        """
        self._learn_period(samples)
        stretches: list[_Stretch] = []
        taken = last = -math.inf if self._last is None else self._last
        latest, longest = now + _CLOCK_TOLERANCE, _JITTER * self._period
        for stamp, value in samples:
            t = stamp / 1e6
            if t <= taken:
                continue
            if t > latest:
                self.dropped["future"] += 1
                continue
            if t <= last:
                self.dropped["backwards"] += 1
                continue
            before, last = last, t
            if not 0 <= value <= 100:
                self.dropped["out_of_range"] += 1
                continue
            if t - before <= longest:
                start = before
            else:
                start = t - self._period
                self._bridge(stretches, start)
            self._add(stretches, start, t, value)
        if last > taken:
            self._last = last
        return _spans(stretches)

    def take_rate(self, percent: int, now: float, *, only_source: bool) -> list[Span]:
        """The current rate, where the buffer has no sample though one was due.

        A rate of 0 stands for the time since the last measured instant, at most one and a half poll intervals. A rate
        over 0 says nothing of that time, unless it is the only source that the device has.
        """
        if not 0 <= percent <= 100:
            self.dropped["out_of_range"] += 1
            return []
        if not only_source:
            if percent > 0 or (self._last is not None and now - self._last <= max(_LATE, _JITTER * self._period)):
                return []
            self._silent_when_idle = True
        stretches: list[_Stretch] = []
        self._add(stretches, now - self._reach, now, percent)
        return _spans(stretches)

    def _bridge(self, stretches: list[_Stretch], end: float) -> None:
        """The time up to `end`, without samples, was idle: where the device is known to be silent then."""
        if self._silent_when_idle and self._covered is not None and end - self._covered <= self._reach:
            self._add(stretches, self._covered, end, 0)

    def _add(self, stretches: list[_Stretch], start: float, end: float, percent: int) -> None:
        """One more, which begins where the one before ended at the earliest, and goes on with it where it is alike."""
        if self._covered is not None and start < self._covered:
            start = self._covered
        if end <= start:
            return
        self._covered = end
        if stretches and stretches[-1][2] == percent and stretches[-1][1] == start:
            stretches[-1][1] = end
        else:
            stretches.append([start, end, percent])

    def _learn_period(self, samples: Sequence[tuple[int, int]]) -> None:
        """The device's own sample period, from samples that follow each other."""
        steps = [(b[0] - a[0]) / 1e6 for a, b in pairwise(samples) if b[0] > a[0]]
        if len(steps) >= 4:
            self._period = min(median(steps), _LONGEST_PERIOD)


def _spans(stretches: Iterable[_Stretch]) -> list[Span]:
    return [Span(start, end, percent / 100) for start, end, percent in stretches]
