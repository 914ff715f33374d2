"""A job's GPUs over time: one row per GPU, with what is idle, what is busy and what is unknown told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from matplotlib.axes import Axes

from dutycycle_alerter.figures import clock_at, local, percent
from dutycycle_alerter.plots.canvas import (
    BUSY,
    FAINT,
    IDLE,
    INK,
    QUIET,
    Canvas,
    Place,
    Shape,
    cut,
    fill,
    stroke,
    width_of,
)
from dutycycle_alerter.plots.spans import Row, Span, row_of, runs
from dutycycle_alerter.plots.ticks import ticks
from dutycycle_alerter.views import GpuSeries, drawn_first

IDLE_AT = 0.005
"""Utilization at or under this is drawn as idle: the bound of the rule `idle`."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 138, 64, 20, 52
_LINE = 16
_TICKS, _FEW_TICKS = 7, 4
_NAME = 19
"""Characters of a GPU's name."""
_AREAS = 8
"""Up to so many GPUs are areas; more are strips of colour."""
_ROWS = 32
_LEVELS = 10


@dataclass(frozen=True, slots=True)
class Band:
    """A time, in Unix seconds, that is set off and named."""

    start: float
    end: float
    label: str


class Timeline:
    """GPUs to be drawn; `height` is what they need, in pixels. Beyond 32 GPUs the least used are drawn.

    A `narrow` one has less beside its rows and more below them, for places of some 400 pixels.
    """

    def __init__(
        self, series: Sequence[GpuSeries], band: Band, timezone: tzinfo | None, *, narrow: bool = False
    ) -> None:
        rows = [row_of(one) for one in series]
        self._total = len(rows)
        if len(rows) > _ROWS:
            rows = sorted(rows, key=lambda row: drawn_first(row.mean))[:_ROWS]
        self._rows = rows
        self._band = band
        self._pitch = _pitch(len(rows))
        self._size = 11.0 if self._pitch >= 18 else 8.5
        self._narrow = narrow
        names = [width_of(cut(row.name, _NAME), self._size) for row in rows] if narrow else []
        self._left = max(names, default=0) + 10 if narrow else _LEFT
        self._bottom = _BOTTOM + (2 * _LINE if narrow else 0)
        self.height = _TOP + max(1, len(rows)) * self._pitch + self._bottom
        times = [t for row in rows if row.spans for t in (row.spans[0].start, row.spans[-1].end)]
        self._start, self._end = min([*times, band.start]), max([*times, band.end, band.start + 60])
        # The corner names one zone for the whole axis.
        self._timezone = clock_at(self._end, timezone)

    def draw(self, canvas: Canvas, left: float, bottom: float, width: float) -> None:
        """Draw with the lower left corner at a place in pixels."""
        height = len(self._rows) * self._pitch
        place = Place(left + self._left, bottom + self._bottom, width - self._left - _RIGHT, height)
        at = canvas.axes(place)
        at.set_ylim(max(1, len(self._rows)), 0)
        at.set_xlim(self._start, self._end)
        at.set_yticks([])
        at.set_xticks([])
        if len(self._rows) <= _AREAS:
            self._areas(at)
        else:
            _strips(at, self._rows)
        self._names(canvas, place)
        self._mark(at, canvas, place)
        self._time_axis(at, canvas, place)
        self._legend(canvas, place)

    def _x(self, place: Place, t: float) -> float:
        return place.left + place.width * (t - self._start) / (self._end - self._start)

    def _areas(self, at: Axes) -> None:
        """Filled areas, each between guide lines at 0 and 100 %; time that was measured has a faint ground."""
        margin = 8 / self._pitch
        size = 1 - margin
        for i, row in enumerate(self._rows):
            floor = i + 1 - margin / 2
            for level in (floor, floor - size):
                at.plot([self._start, self._end], [level, level], color=INK, alpha=FAINT, linewidth=0.7)
            together = list(runs(row.spans))
            ground = [_box(run[0].start, run[-1].end, floor, floor - size) for run in together]
            fill(at, ground, facecolor=BUSY, alpha=0.07)
            fill(at, [_outline(run, floor, size) for run in together], facecolor=BUSY, alpha=0.4)
            stroke(at, [_steps(run, floor, size) for run in together], edgecolor=BUSY, linewidth=1)
            low = [span for span in row.spans if span.value <= IDLE_AT]
            fill(at, [_box(span.start, span.end, floor, floor - 4 / self._pitch) for span in low], facecolor=IDLE)

    def _names(self, canvas: Canvas, place: Place) -> None:
        """Each row's GPU on its left and its mean on its right."""
        size = self._size
        for i, row in enumerate(self._rows):
            y = place.bottom + place.height - (i + 0.5) * self._pitch
            canvas.text(place.left - 8, y, cut(row.name, _NAME), size=size, ha="right")
            mean = "–" if row.mean is None else percent(row.mean).replace("under ", "< ")
            canvas.text(place.left + place.width + 8, y, mean, size=size, ha="left")

    def _mark(self, at: Axes, canvas: Canvas, place: Place) -> None:
        at.axvspan(self._band.start, self._band.end, color=INK, alpha=0.05, linewidth=0)
        x = self._x(place, self._band.start)
        at.axvline(self._band.start, color=INK, alpha=QUIET, linewidth=1, linestyle=(0, (3, 2)))
        align = "left" if x < place.left + place.width / 2 else "right"
        y = place.bottom + place.height + _TOP / 2
        canvas.text(x + (2 if align == "left" else -2), y, self._band.label, size=9.5, quiet=True, ha=align)

    def _time_axis(self, at: Axes, canvas: Canvas, place: Place) -> None:
        """Local wall times under the rows, and the day and time zone in the corner."""
        for t, text in ticks(self._start, self._end, self._timezone, _FEW_TICKS if self._narrow else _TICKS):
            at.plot([t, t], [0, 1], color=INK, alpha=FAINT, linewidth=0.7, transform=at.get_xaxis_transform())
            canvas.text(self._x(place, t), place.bottom - 12, text, size=10.5, ha="center")
        first, last = (local(t, self._timezone) for t in (self._start, self._end))
        days = f"{first:%a} {first.day} {first:%b %Y}"
        if last.date() != first.date():
            days += f" – {last:%a} {last.day} {last:%b %Y}"
        right, y = place.left + place.width + _RIGHT, place.bottom - 40 - (2 * _LINE if self._narrow else 0)
        canvas.text(right, y, f"{days}, {last:%Z}", size=9.5, quiet=True, ha="right")

    def _legend(self, canvas: Canvas, place: Place) -> None:
        x, y = place.left, place.bottom - 40
        for color, alpha, text in ((BUSY, 0.6, "busy"), (IDLE, 1.0, "idle")):
            canvas.box(Place(x, y - 4, 9, 9), color, alpha=alpha)
            canvas.text(x + 14, y, text, size=9.5, quiet=True)
            x += 30 + width_of(text, 9.5)
        note = "blank: not measured"
        if self._total > len(self._rows):
            least = f"these are the {len(self._rows)} least used of {self._total} GPUs"
            if self._narrow:
                canvas.text(place.left, y - _LINE, least, size=9.5, quiet=True)
            else:
                note += f"; {least}"
        canvas.text(x, y, note, size=9.5, quiet=True)


def _pitch(rows: int) -> int:
    """Height of a row in pixels."""
    return next((pitch for limit, pitch in ((1, 90), (2, 64), (4, 48), (_AREAS, 34), (16, 18)) if rows <= limit), 12)


def _steps(run: Sequence[Span], floor: float, size: float) -> Shape:
    return [(t, floor - span.value * size) for span in run for t in (span.start, span.end)]


def _outline(run: Sequence[Span], floor: float, size: float) -> Shape:
    return [(run[0].start, floor), *_steps(run, floor, size), (run[-1].end, floor)]


def _box(left: float, right: float, bottom: float, top: float) -> Shape:
    return [(left, bottom), (left, top), (right, top), (right, bottom)]


def _strips(at: Axes, rows: Sequence[Row]) -> None:
    """Colour strips: the busier, the stronger; idle in its own colour."""
    levels: dict[int, list[Shape]] = {}
    for i, row in enumerate(rows):
        for span in row.spans:
            level = -1 if span.value <= IDLE_AT else min(_LEVELS - 1, int(span.value * _LEVELS))
            levels.setdefault(level, []).append(_box(span.start, span.end, i + 0.9, i + 0.1))
    for level, boxes in sorted(levels.items()):
        if level < 0:
            fill(at, boxes, facecolor=IDLE)
        else:
            fill(at, boxes, facecolor=BUSY, alpha=0.1 + 0.9 * level / (_LEVELS - 1))
