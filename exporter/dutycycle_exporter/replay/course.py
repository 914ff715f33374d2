"""From the rows of a recording back to a course of utilization within them: pure, and the same for every reader.

A row says how busy a GPU was on average (U) and how many seconds of idle gaps under 2 s and of 2 to 30 s ended in it.
Any course with these figures explains the row; this one is the simplest:

- A row whose gap columns are empty, or 0, is even: U throughout.
- A row at 5 % or less in which no gap ends is idle throughout, and one gap with the idle time on either side.
- In any other row gaps of equal length, separated by work of equal length, lie inside the row. Work is as busy as U
  asks for. Where U leaves less idle time than the row has gaps (a gap counts in the row in which it ends), the first
  gap of the row began in the row before.
- A gap that ends where a row begins is stretched, within what U leaves on both sides, to the length that its row
  reports: 2 s or more to count there, 30 s or more where the row reports none.

The mean of every row is exact. Gaps are exact as far as rows agree with each other, to the rounding of the file.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dutycycle_exporter.gaps import IDLE_UTILIZATION
from dutycycle_exporter.model import Span
from dutycycle_exporter.replay.recording import Series

_SHORT, _LONG, _PAUSE = 2.0, 30.0, 600.0
"""Where gaps under 2 s and under 30 s end, and the longest row that can have gaps inside."""

_MARGIN = 0.01
"""Seconds by which a gap keeps away from these bounds; files round ratios to about as much."""

_LEVEL = IDLE_UTILIZATION - 0.001
"""Idle time may be that busy, where a row would be too busy otherwise."""

Bucket = Literal["short", "long", "neither"]


@dataclass(slots=True)
class _Row:
    """How the idle seconds of one row lie in it."""

    length: float
    utilization: float
    known: bool
    """Whether it says anything of gaps."""
    first: bool = False
    """Nothing is known of what was just before it."""
    idle: bool = False
    """Idle throughout."""
    reserve: float = 0.0
    """Idle seconds at its end that the gaps of later rows need."""
    lead: float = 0.0
    """Idle at its beginning."""
    short: float = 0.0
    """In gaps under 2 s inside it."""
    long: float = 0.0
    """In gaps of 2 to 30 s inside it."""
    trail: float = 0.0
    """Idle at its end."""

    @property
    def room(self) -> float:
        """Idle seconds that the mean leaves."""
        if self.utilization <= IDLE_UTILIZATION:
            return self.length * (1 - self.utilization)
        return self.length * (1 - self.utilization) / (1 - _LEVEL)

    @property
    def gaps(self) -> float:
        """Seconds in gaps: of those reported, until they are placed; then of those inside."""
        return self.short + self.long

    @property
    def spare(self) -> float:
        """Of these, what is not taken."""
        return max(0.0, self.room - self.lead - self.short - self.long - self.trail)


class Course:
    """The utilization of one workload on one GPU over time, known where the recording knows it."""

    def __init__(self, series: Series) -> None:
        self._starts, self._ends = series.starts, series.ends
        self._utilization = series.column("utilization_ratio")
        plan = _plan(series)
        self._lead = array("d", (row.lead for row in plan))
        self._short = array("d", (row.short for row in plan))
        self._long = array("d", (row.long for row in plan))
        self._trail = array("d", (row.trail for row in plan))

    def row(self, i: int) -> Iterator[Span]:
        """The spans of row i, in time of the recording; none where its utilization is missing."""
        start, end, utilization = self._starts[i], self._ends[i], self._utilization[i]
        lead, short, long, trail = self._lead[i], self._short[i], self._long[i], self._trail[i]
        length, idle = end - start, lead + short + long + trail
        if math.isnan(utilization) or length <= 0:
            return
        if idle <= 0:
            yield Span(start, end, utilization)
            return
        work = length - idle
        level = min(1.0, utilization * length / work)
        low = max(0.0, (utilization * length - level * work) / idle)
        lengths = [(lead, low)]
        gaps = _cut(short, 0.75 * _SHORT) + _cut(long, 0.8 * _LONG)
        for gap in gaps:
            lengths += [(work / (len(gaps) + 1), level), (gap, low)]
        lengths += [(work / (len(gaps) + 1), level), (trail, low)]
        at = start
        for seconds, value in lengths:
            if seconds > 0:
                before, at = at, min(end, at + seconds)
                yield Span(before, at, value)


def _cut(seconds: float, longest: float) -> list[float]:
    """Equal gaps of at most `longest` that add up to `seconds`."""
    number = math.ceil(seconds / longest)
    return [seconds / number] * number if number else []


def _plan(series: Series) -> list[_Row]:
    """Where the gaps of every row lie: first from the last row to the first what each must leave to those after it,
    then forwards how each divides the rest.
    """
    plan = _rows(series)
    owed = 0.0  # idle seconds that the row after this one needs before it
    for row in reversed(plan):
        row.reserve = min(owed, row.room, _LONG - _MARGIN)
        owed = max(0.0, row.reserve + row.gaps - row.room) if row.known else max(0.0, owed - row.room)
        if row.first:
            owed = 0.0
    worker: _Row | None = None  # the last row with work, where nothing but idle time lies between
    waiting = 0.0  # idle seconds up to the beginning of the present row
    for row in plan:
        if row.first:
            worker, waiting = None, 0.0
        if row.idle:
            waiting += row.length
            continue
        if row.known:
            _place(row, worker, waiting)
        if row.utilization <= IDLE_UTILIZATION:
            row.trail = row.spare
        worker, waiting = row, row.trail
    return plan


def _rows(series: Series) -> list[_Row]:
    """The rows as they are reported."""
    utilization = series.column("utilization_ratio")
    short, long = series.column("idle_gap_lt2_ratio"), series.column("idle_gap_2to30_ratio")
    plan: list[_Row] = []
    for i, (start, end) in enumerate(zip(series.starts, series.ends, strict=True)):
        length = end - start
        known = not math.isnan(short[i] + long[i])
        row = _Row(length, utilization[i], known=known and length <= _PAUSE)
        if row.known:
            row.short, row.long = short[i] * length, long[i] * length
        row.idle = row.utilization <= IDLE_UTILIZATION and (row.gaps == 0 or row.utilization == 0)
        row.first = not plan or start > series.ends[i - 1] or math.isnan(row.utilization + plan[-1].utilization)
        if row.idle:
            row.short = row.long = 0.0
        plan.append(row)
    return plan


def _place(row: _Row, before: _Row | None, waiting: float) -> None:
    """Place a row's gaps: first the one that ends where its work begins, then those inside.

    `before` is the last row with work, which may give of its idle time, and `waiting` the idle time since.
    """
    room = row.room - row.reserve
    gaps = (row.short, row.long)
    row.short = row.long = 0.0
    give = before.spare if before is not None else 0.0
    length, bucket = _entrance(gaps, waiting, most=waiting + give + room, room=room)
    more = max(0.0, length - waiting)
    if before is not None:
        before.trail += min(more, give)
    row.lead = max(0.0, more - give)
    left = room - row.lead
    row.long = _inside(min(gaps[1] - length if bucket == "long" else gaps[1], left))
    row.short = max(0.0, min(gaps[0] - length if bucket == "short" else gaps[0], left - row.long))


def _entrance(gaps: tuple[float, float], waiting: float, *, most: float, room: float) -> tuple[float, Bucket]:
    """The length of the gap that ends as a row's work begins, and as what the row reports it.

    `most` is what it can be, `room` how much idle time the row itself has.
    """
    short, long = gaps
    needed = max(waiting, short + long - room)
    if needed <= 0:
        return 0.0, "neither"
    if needed < _SHORT and short >= waiting - _MARGIN and short > 0:
        return min(needed, max(short, waiting), _SHORT - _MARGIN), "short"
    if needed < _LONG and long >= max(waiting, _SHORT) - _MARGIN:
        length = max(needed, _SHORT + _MARGIN)
        # What would be left of it is too short for a gap of its own.
        return min(long if long - length < _SHORT else length, most, _LONG - _MARGIN), "long"
    if 0 < waiting < _LONG and most >= _LONG + _MARGIN:
        return _LONG + _MARGIN, "neither"
    return waiting, "neither"


def _inside(seconds: float) -> float:
    """Seconds in gaps of 2 to 30 s, which are 2 s at least."""
    return 0.0 if seconds < _SHORT - 2 * _MARGIN else max(seconds, _SHORT + _MARGIN)
