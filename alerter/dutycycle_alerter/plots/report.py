"""Reports as pictures: the histograms of users and of their GPU-hours, and bars of what is compared."""

from __future__ import annotations

from collections.abc import Sequence

from dutycycle_alerter.figures import percent
from dutycycle_alerter.plots import bars
from dutycycle_alerter.plots.canvas import BUSY, IDLE, INK, Canvas, Place, cut, width_of
from dutycycle_alerter.plots.comparison import Bars, Tone
from dutycycle_alerter.usage import LOW_UTILIZATION_PERCENT

_WIDTH, _EDGE, _GUTTER = 1120, 36, 44
_HALF = (_WIDTH - 2 * _EDGE - _GUTTER) / 2
_HEAD, _TITLE, _HISTOGRAM, _FOOT = 78, 30, 210, 34
_PITCH = 30
_NAME, _SAID, _LETTERS = 300, 190, 44
"""Pixels for a bar's name and for what is said behind it, and letters of the name."""
_NOTHING = 60
_COLORS = {Tone.BUSY: BUSY, Tone.WASTED: IDLE, Tone.OTHER: "#8a94a0"}


def histograms(
    title: str, note: str, users: Sequence[int], seconds: Sequence[float], *, people: int, under: int
) -> bytes:
    """Users and their measured GPU-seconds by mean utilization, in bins of 5 points; `people` are all users, and
    `under` the measured ones below 15 %.
    """
    canvas = Canvas(_WIDTH, _EDGE + _HEAD + _TITLE + _HISTOGRAM + _FOOT)
    _head(canvas, title, note)
    measured = sum(users)
    low = f"{LOW_UTILIZATION_PERCENT:.0f} %"
    share = under / measured if measured else None
    said = f"{under:,} of {measured:,} under {low}: {percent(share)} of them" if measured else "nobody was measured"
    in_hours = [value / 3600 for value in seconds]
    of_low = sum(in_hours[:3]) / sum(in_hours) if sum(in_hours) else None
    hours_said = f"{percent(of_low)} are of users under {low}" if of_low is not None else ""
    for i, (name, about, bins) in enumerate(
        (("Users by mean utilization", said, users), ("Their GPU-hours", hours_said, in_hours))
    ):
        left = _EDGE + i * (_HALF + _GUTTER)
        _subtitle(canvas, left, canvas.height - _EDGE - _HEAD - 8, name, about)
        bars.histogram(canvas, bins, Place(left, _FOOT + 24, _HALF, _HISTOGRAM - 30))
    if people > measured:
        of_them = "user was" if people - measured == 1 else "users were"
        text = f"{people - measured:,} {of_them} not measured: in no bin"
        canvas.text(_EDGE, 20, text, size=10.5, quiet=True)
    return canvas.png(title=title)


def compared(shown: Bars) -> bytes:
    """A bar a row, all on one scale."""
    legend = _TITLE if shown.legend else 0
    canvas = Canvas(_WIDTH, 2 * _EDGE + _HEAD + legend + max(_NOTHING, len(shown.rows) * _PITCH))
    _head(canvas, shown.title, shown.note)
    top = canvas.height - _EDGE - _HEAD
    x = float(_EDGE)
    for what, tone in shown.legend:
        canvas.box(Place(x, top - 14, 11, 11), _COLORS[tone], alpha=0.85)
        canvas.text(x + 18, top - 8, what, size=10.5, quiet=True)
        x += 18 + width_of(what, 10.5) + 26
    top -= legend
    most = max((sum(value for value, _ in row.parts) for row in shown.rows), default=0) or 1
    room = _WIDTH - 2 * _EDGE - _NAME - _SAID
    for i, row in enumerate(shown.rows):
        y = top - (i + 0.5) * _PITCH
        canvas.text(_EDGE + _NAME - 12, y, cut(row.name, _LETTERS), ha="right")
        left = float(_EDGE + _NAME)
        for value, tone in row.parts:
            width = room * max(0.0, value) / most
            canvas.box(Place(left, y - 9, width, 18), _COLORS[tone], alpha=0.85)
            left += width
        canvas.text(left + 8, y, row.said, size=10, quiet=True)
    if not shown.rows:
        canvas.text(_EDGE, top - _NOTHING / 2, "Nothing to show.", quiet=True)
    return canvas.png(title=shown.title)


def _head(canvas: Canvas, title: str, note: str) -> None:
    canvas.text(_EDGE, canvas.height - _EDGE - 10, title, size=21, fontweight="bold", color=INK)
    canvas.text(_EDGE, canvas.height - _EDGE - 42, note, size=12.5, quiet=True)


def _subtitle(canvas: Canvas, left: float, y: float, title: str, note: str) -> None:
    canvas.text(left, y, title, size=13.5, fontweight="bold")
    canvas.text(left + width_of(title, 13.5, bold=True) + 14, y, note, size=10.5, quiet=True)
