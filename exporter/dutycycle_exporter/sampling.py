"""From NVML's buffer of utilization samples to spans of measured time. Pure, one instance per GPU.

NVML stamps each sample with the end of its sample period. A sample stands for the time since the one before it; where
that is too long ago (the buffer was overrun, or this is the first), it stands for one period and the rest is a hole.

The stamps are of no clock that NVML names: mostly the time of day, which somebody may set, on some drivers the time
since the machine was started. Spans are on the clock of `elapsed()`, which nobody sets. So a new sample is known by its
place in the buffer, not by its stamp. Samples that follow each other stay on the clock that they were on; where they do
not, each clock that is known is tried.

Some drivers write no samples while a GPU idles. Their rate, which then is 0, stands for that time; and once a GPU was
seen to be silent in this way, a hole from which no sample can be missing is idle time, too. Without this a GPU that
works every other second would seem to work all the time. What the buffer lost between two polls nobody knows: that time
is neither busy nor idle.
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
"""Poll intervals for which a rate may stand, and that a hole may be long to be idle time."""

RATE_INTERVAL = 1.0
"""Seconds, before division by the time scale, between two readings of a rate that is a GPU's only source."""

_HELD = 10.0
"""Seconds of the past, before division by the time scale, that a buffer surely holds: 72 samples and more were seen."""

_SMALLEST = 60
"""Samples, with fewer of which no buffer is full: that of each driver seen has room for 72 and more. Else one that
lets go of samples by their age would seem full after each burst of work that is no shorter than those before it.
"""

_CLOCK_TOLERANCE = 1.0
"""Seconds by which a timestamp may lie ahead of our own clock."""

_OLDEST = 120.0
"""Seconds for which a new sample may lie back; one that lies further back is not on the clock that it seemed to be."""

_RUN = 3
"""New samples that are on no known clock, from the newest of which another one is learned."""


_Stretch = list[float]
"""A span that can still grow: its start, its end, percent. Most of a GPU's samples are like the one before."""


class SampleBuffer:
    """Turns the samples of successive polls into spans that do not overlap, and counts what it drops.

    `interval` is the wall time between polls. `dropped` counts by reason; whoever reads it clears it.
    """

    def __init__(self, *, interval: float, time_scale: float = 1.0) -> None:
        self.dropped: Counter[str] = Counter()
        self._reach = _REACH * interval
        self._rate_reach = min(self._reach, _REACH * RATE_INTERVAL / time_scale)
        self._held = _HELD / time_scale
        self._period = NOMINAL_PERIOD / time_scale
        self._last: float | None = None  # when the newest sample was taken
        self._covered: float | None = None  # end of the newest span
        self._silent_when_idle = False
        self._stamp: int | None = None  # of the newest sample, as NVML wrote it
        self._ahead: float | None = None  # seconds by which stamps are
        self._day: float | None = None  # and the time of day was, at the last poll
        self._polled = -math.inf  # when that was
        self._most = 0  # samples that the buffer was seen to have
        self._unknown = True  # whether samples may be missing between the newest span and the last poll

    def stamp(self, t: float, ahead: float = 0.0) -> float:
        """What NVML writes for an instant, in microseconds, as far as is known; `ahead` as in `take`."""
        return (t + (ahead if self._ahead is None else self._ahead)) * 1e6

    def take(self, samples: Sequence[tuple[int, int]], now: float, ahead: float = 0.0) -> list[Span]:
        """Samples as (microseconds, percent), in NVML's order; those that were taken before are passed over.

        `ahead` is by how many seconds the time of day is ahead of the clock of `now`, at this poll. A value over 100
        (values up to 10^8 were seen) is dropped, and its time is not measured. A timestamp that goes back, or lies in
        the future, on every clock that is known, is dropped as well.
        """
        self._learn_period(samples)
        fresh, before = self._fresh(samples), self._stamp
        lost = self._may_have_lost(samples, fresh, now)
        self._follow_day(ahead)
        stretches: list[_Stretch] = []
        taken = last = max(-math.inf if self._last is None else self._last, now - _OLDEST)
        latest, longest = now + _CLOCK_TOLERANCE, _JITTER * self._period
        early = 0
        for stamp, value in fresh:
            if before is None or not 0 < (stamp - before) / 1e6 <= longest:
                self._choose_clock(stamp, max(last, self._polled - _LATE), latest)
            before = stamp
            t = stamp / 1e6 - (self._ahead or 0.0)
            if t <= taken:
                continue
            if t > latest:
                self.dropped["future"] += 1
                early += 1
                continue
            early = 0
            if t <= last:
                self.dropped["backwards"] += 1
                continue
            previous, last = last, t
            if not 0 <= value <= 100:
                self.dropped["out_of_range"] += 1
                continue
            if t - previous <= longest:
                start = previous
            else:
                start = t - self._period
                # What is missing is missing before the first: between two of one answer there was nothing more.
                if stretches or not lost:
                    self._bridge(stretches, start)
            self._add(stretches, start, t, value)
        if last > taken:
            self._last = last
        # What is new was not there at the poll before: where it seems older than that, or not to be there yet, it is on
        # another clock.
        late = len(fresh) >= _RUN and last <= max(taken, self._polled - _LATE)
        if late or early >= _RUN:
            self._ahead = fresh[-1][0] / 1e6 - now
        self._stamp, self._polled = before, now
        self._unknown = lost and not stretches
        return _spans(stretches)

    def take_rate(self, percent: int, now: float, *, only_source: bool) -> list[Span]:
        """The current rate, where the buffer has no sample though one was due.

        A rate of 0 stands for the time since the last measured instant, at most one and a half poll intervals, and no
        longer than the buffer would tell of work if samples may be missing. A rate over 0 says nothing of that time.

        A rate that is the device's only source stands for the time since the rate before, at most one and a half times
        RATE_INTERVAL. After a longer time, and at first, it stands for one sample period.
        """
        if not 0 <= percent <= 100:
            self.dropped["out_of_range"] += 1
            return []
        reach = self._reach
        if only_source:
            known = self._covered is not None and now - self._covered <= self._rate_reach
            reach = self._rate_reach if known else self._period
        else:
            if percent > 0 or (self._last is not None and now - self._last <= max(_LATE, _JITTER * self._period)):
                return []
            self._silent_when_idle = True
            if self._unknown:
                reach = min(reach, self._held)
        stretches: list[_Stretch] = []
        self._add(stretches, now - reach, now, percent)
        return _spans(stretches)

    def _fresh(self, samples: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """Those after the newest that was taken before; all of them where that is not there any more."""
        for place in range(len(samples) - 1, -1, -1):
            if samples[place][0] == self._stamp:
                return samples[place + 1 :]
        return samples

    def _may_have_lost(self, samples: Sequence[tuple[int, int]], fresh: Sequence[tuple[int, int]], now: float) -> bool:
        """Whether the buffer may have let go of samples that no poll saw.

        It did not where it still has the newest of the poll before. Nor where it is not full and the time since then is
        not longer than what it holds: it then let that one go because it was old, not to make room.
        """
        full = len(samples) >= max(self._most, _SMALLEST)
        self._most = max(self._most, len(samples))
        return len(fresh) == len(samples) and (full or now - self._polled > self._held)

    def _follow_day(self, ahead: float) -> None:
        """Stamps that are of the time of day go with it: with a step that is too short to be seen in them at once."""
        if self._ahead is None or (self._ahead == self._day and abs(ahead - self._ahead) <= _JITTER * self._period):
            self._ahead = ahead
        self._day = ahead

    def _choose_clock(self, stamp: int, first: float, last: float) -> None:
        """Of a sample that does not follow the one before: on which of the clocks it lies where it may, as early as it
        can. The one that it was on, the time of day, that of `now`; where none fits it stays on its own.
        """
        fitting = [
            ahead
            for ahead in (self._ahead, self._day, 0.0)
            if ahead is not None and first < stamp / 1e6 - ahead <= last
        ]
        self._ahead = max(fitting, default=self._ahead)

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
