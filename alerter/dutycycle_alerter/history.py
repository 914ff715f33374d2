"""Cumulative counters over time: resets undone, gaps bridged, boundaries interpolated.

Both sources keep their evidence in this form. A difference of counters cannot cross tenants (a series belongs to one
workload on one GPU), and it survives a gap in scraping: what accumulated during the gap arrives with the next point.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import MutableSequence, Sequence
from math import inf, isnan

import numpy as np
from numpy.typing import NDArray

Values = tuple[float | None, ...]

GPU_COUNTERS = (
    "allocated",
    "observed",
    "busy",
    "gap_lt2",
    "gap_2to30",
    "gap_30to600",
    "gap_ge600",
    "energy",
    "sm",
    "tensor",
    "dram",
    "throttle_thermal",
    "link_bytes",
    "low",
)
GPU_GAUGES = ("share", "memory_used", "memory_total", "processes", "power_limit")
HOST_COUNTERS = ("cpu_seconds", "io_pressure", "cpu_pressure")
HOST_GAUGES = ("cpu_limit",)

_MOST_WALKED = 10_000
"""A window of more points from the beginning of a series takes its maximum from running maxima: a window over the whole
life, asked for at every evaluation, would take quadratic time otherwise.
"""


class Series:
    """Points of one series: counters as they accumulated since the first point, and gauges as they were read.

    A counter that is lower than before was reset (its process started again): it counts on from what it had. A missing
    value stays missing at its point.
    """

    __slots__ = ("_last_raw", "_latest", "_offsets", "gauges", "times", "totals")

    def __init__(self, counters: int) -> None:
        self.times: MutableSequence[float] = []
        self.totals: list[Values] = []
        self.gauges: list[Values] = []
        # For each point the newest reading of every gauge so far. A search backwards would walk the whole life of a
        # gauge that was never read.
        self._latest: list[Values] = []
        self._last_raw: list[float | None] = [None] * counters
        self._offsets = [0.0] * counters

    def append(self, t: float, counters: Values, gauges: Values = (), *, spacing: float = 0.0) -> None:
        """Add a point with the counters' raw values; a point that is not newer than the last is ignored.

        With `spacing` (seconds) the newest point is replaced until it lies that far from the one before it: counters
        lose nothing by that, and a day of scrapes takes the room of a day of minutes.
        """
        if self.times and t <= self.times[-1]:
            return
        if self.crowded(spacing):
            del self.times[-1], self.totals[-1], self.gauges[-1], self._latest[-1]
        totals: list[float | None] = []
        for i, raw in enumerate(counters):
            if raw is None:
                totals.append(None)
                continue
            last = self._last_raw[i]
            if last is not None and raw < last:
                self._offsets[i] += last
            self._last_raw[i] = raw
            totals.append(self._offsets[i] + raw)
        self.times.append(t)
        self.totals.append(tuple(totals))
        self.gauges.append(gauges)
        self._latest.append(self._carried(gauges))

    def _carried(self, gauges: Values) -> Values:
        """The readings, and the newest earlier one for each gauge without a reading."""
        if None not in gauges or not self._latest:
            return gauges
        return tuple(old if new is None else new for new, old in zip(gauges, self._latest[-1], strict=True))

    def crowded(self, spacing: float) -> bool:
        """Whether the next point replaces the newest, at this spacing in seconds."""
        return len(self.times) > 1 and self.times[-1] - self.times[-2] < spacing

    def rewind(self, until: float) -> None:
        """The clock was set back: drop the points later than `until`. Counters go on from what they had reached.

        What they grew by in the time that is dropped belongs to no instant any more, so the points that stay are
        raised by it: no window sees it, and totals are the same as before. Where none would stay, one at `until` does.
        """
        keep = bisect_right(self.times, until)
        if keep == len(self.times):
            return
        newest = self.known_at(self.times[-1])
        if keep:
            raised = [
                0.0 if new is None or old is None else new - old
                for new, old in zip(newest, self._known_in(keep), strict=True)
            ]
            self.totals[:keep] = [
                tuple(None if value is None else value + by for value, by in zip(row, raised, strict=True))
                for row in self.totals[:keep]
            ]
            del self.times[keep:], self.totals[keep:], self.gauges[keep:], self._latest[keep:]
        else:
            self.times, self.totals, self.gauges = [until], [newest], [self.gauges[-1]]
            self._latest = [self.gauges[-1]]

    def _known_in(self, points: int) -> Values:
        """What each counter last was within the first so many points; None where it was missing in all."""
        return tuple(
            next((row[i] for row in reversed(self.totals[:points]) if row[i] is not None), None)
            for i in range(len(self._offsets))
        )

    def forget_before(self, t: float) -> None:
        """Drop points older than `t`, but for the newest of them: it is the baseline of what follows."""
        keep = max(0, bisect_right(self.times, t) - 1)
        del self.times[:keep], self.totals[:keep], self.gauges[:keep], self._latest[:keep]

    def increase(self, start: float, end: float, *, longest_gap: float = inf) -> Values:
        """Growth of each counter over (start, end], linear between points; None where either side is missing.

        Within a gap that is longer than `longest_gap` seconds nobody knows when it grew: then only what grew after it
        counts, and a window that begins there is covered for the rest alone.
        """
        if not self.times:
            return (None,) * len(self._offsets)
        before, after = self.at(self.known_from(start, longest_gap)), self.at(end)
        return tuple(None if a is None or b is None else max(0.0, b - a) for a, b in zip(before, after, strict=True))

    def known_from(self, start: float, longest_gap: float) -> float:
        """From when on growth since `start` is known: in a long gap, from the first point after it."""
        right = bisect_right(self.times, start)
        if not 0 < right < len(self.times) or self.times[right - 1] == start:
            return start
        return self.times[right] if self.times[right] - self.times[right - 1] > longest_gap else start

    def grew_from(self, index: int, start: float, end: float) -> float | None:
        """Return when a counter of seconds first grew within (start, end]; None where it did not.

        Where it grew by less than the time between two points, it grew at the end of that time.
        """
        base = self.at(start)[index] if self.times else None
        found = None if base is None else self._first_above(index, base, start)
        if base is None or found is None:
            return None
        point, total = found
        began = max(start, self.times[point - 1] if point else start, self.times[point] - (total - base))
        return began if began < end else None

    def _first_above(self, index: int, base: float, start: float) -> tuple[int, float] | None:
        """Return the first point after `start` at which a counter is above `base`, and the counter there."""
        for point in range(bisect_right(self.times, start), len(self.times)):
            total = self.totals[point][index]
            if total is not None and total > base:
                return point, total
        return None

    def gauge_max(self, index: int, start: float, end: float) -> float | None:
        """Highest reading of a gauge at the points in (start, end]."""
        low, high = bisect_right(self.times, start), bisect_right(self.times, end)
        values = [v for row in self.gauges[low:high] if (v := row[index]) is not None]
        return max(values) if values else None

    def gauge_between(self, index: int, start: float, end: float) -> list[float] | None:
        """Every reading of a gauge at the points in (start, end]; None where there is none, or one is missing."""
        low, high = bisect_right(self.times, start), bisect_right(self.times, end)
        values = [row[index] for row in self.gauges[low:high]]
        known = [value for value in values if value is not None]
        return known if known and len(known) == len(values) else None

    def gauge_last(self, index: int, end: float) -> float | None:
        """Newest reading of a gauge at or before `end`."""
        newest = bisect_right(self.times, end) - 1
        return self._latest[newest][index] if newest >= 0 else None

    def gauge_at(self, index: int, point: int) -> float | None:
        """Reading of a gauge at one point."""
        return self.gauges[point][index]

    def raw(self) -> Values:
        """The counters as last read, for a store from which the series is to be made again."""
        return tuple(None if total is None else raw for total, raw in zip(self.totals[-1], self._last_raw, strict=True))

    def at(self, t: float) -> Values:
        """Totals at an instant; before the first point they are the first's, after the last the last's."""
        right = bisect_right(self.times, t)
        if right == 0:
            return self.totals[0]
        left_total = self.totals[right - 1]
        if right == len(self.times) or self.times[right - 1] == t:
            return left_total
        share = (t - self.times[right - 1]) / (self.times[right] - self.times[right - 1])
        return tuple(
            None if a is None or b is None else a + share * (b - a)
            for a, b in zip(left_total, self.totals[right], strict=True)
        )

    def known_at(self, t: float) -> Values:
        """Totals at an instant, as `at`; a counter that is missing there is what it was before, or first was after."""
        found = list(self.at(t))
        right = bisect_right(self.times, t)
        for row in (*reversed(self.totals[:right]), *self.totals[right:]):
            if None not in found:
                break
            found = [other if value is None else value for value, other in zip(found, row, strict=True)]
        return tuple(found)


Column = NDArray[np.float64]


class ColumnSeries(Series):
    """A complete series, kept by column: millions of points take 8 bytes a value. It does not grow.

    A counter or gauge that is None is missing at every point. A gauge is NaN where it is missing.
    """

    __slots__ = ("_columns", "_highest", "_newest", "_readings")

    def __init__(self, times: Column, totals: Sequence[Column | None], gauges: Sequence[Column | None]) -> None:
        super().__init__(len(totals))
        # bisect and single values are several times faster with array than with numpy.
        self.times = _array(times)
        self._columns = [(i, _array(column)) for i, column in enumerate(totals) if column is not None]
        self._readings = list(gauges)
        self._newest = [None if column is None else _array(_filled_forward(column)) for column in gauges]
        self._highest: dict[int, Column] = {}

    def at(self, t: float) -> Values:
        """Totals at an instant, as in `Series`."""
        left, share = self._place(t)
        found: list[float | None] = [None] * len(self._offsets)
        for i, column in self._columns:
            found[i] = column[left] + share * (column[left + 1] - column[left]) if share else column[left]
        return tuple(found)

    def increase(self, start: float, end: float, *, longest_gap: float = inf) -> Values:
        """Growth of each counter over (start, end], as in `Series`."""
        before, share_before = self._place(self.known_from(start, longest_gap))
        after, share_after = self._place(end)
        grown: list[float | None] = [None] * len(self._offsets)
        for i, column in self._columns:
            low, high = column[before], column[after]
            if share_before:
                low += share_before * (column[before + 1] - low)
            if share_after:
                high += share_after * (column[after + 1] - high)
            grown[i] = max(0.0, high - low)
        return tuple(grown)

    def _first_above(self, index: int, base: float, start: float) -> tuple[int, float] | None:  # noqa: ARG002
        """Return the first point at which a counter, which never falls, is above `base`, and the counter there."""
        column = dict(self._columns)[index]
        point = bisect_right(column, base)
        return (point, column[point]) if point < len(column) else None

    def _place(self, t: float) -> tuple[int, float]:
        """The point at or before an instant, and the share of the way to the next one; the first and last outside."""
        right = bisect_right(self.times, t)
        if right in (0, len(self.times)):
            return max(0, right - 1), 0.0
        left = self.times[right - 1]
        return right - 1, (t - left) / (self.times[right] - left)

    def gauge_max(self, index: int, start: float, end: float) -> float | None:
        """Highest reading of a gauge at the points in (start, end]."""
        column, low, high = self._readings[index], bisect_right(self.times, start), bisect_right(self.times, end)
        if column is None or high <= low:
            return None
        # The first point may be the start of the first row, which has no reading.
        if high - low > _MOST_WALKED and (low == 0 or (low == 1 and isnan(column[0]))):
            if index not in self._highest:
                self._highest[index] = np.fmax.accumulate(column)
            return _known(float(self._highest[index][high - 1]))
        return _known(float(np.fmax.reduce(column[low:high])))

    def gauge_between(self, index: int, start: float, end: float) -> list[float] | None:
        """Every reading of a gauge at the points in (start, end]; None where there is none, or one is missing."""
        readings = self._window(index, start, end)
        return None if readings is None or not readings.size or np.isnan(readings).any() else readings.tolist()

    def gauge_last(self, index: int, end: float) -> float | None:
        """Newest reading of a gauge at or before `end`."""
        column = self._newest[index]
        newest = -1 if column is None else bisect_right(self.times, end) - 1
        return None if column is None or newest < 0 else _known(column[newest])

    def gauge_at(self, index: int, point: int) -> float | None:
        """Reading of a gauge at one point."""
        column = self._readings[index]
        return None if column is None else _known(float(column[point]))

    def _window(self, index: int, start: float, end: float) -> Column | None:
        column = self._readings[index]
        return None if column is None else column[bisect_right(self.times, start) : bisect_right(self.times, end)]


def _array(column: Column) -> array[float]:
    made = array("d")
    made.frombytes(np.ascontiguousarray(column, dtype=np.float64).tobytes())
    return made


def _filled_forward(column: Column) -> Column:
    """Each missing value replaced by the newest one before it."""
    missing = np.isnan(column)
    if not missing.any():
        return column
    places = np.maximum.accumulate(np.where(missing, 0, np.arange(len(column))))
    filled: Column = column[places]
    return filled


def _known(value: float) -> float | None:
    return None if isnan(value) else value
