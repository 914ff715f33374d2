"""Histograms by utilization, and shares of a whole, as bars."""

from __future__ import annotations

from collections.abc import Sequence

from dutycycle_alerter.figures import hours
from dutycycle_alerter.plots.canvas import BUSY, FAINT, IDLE, INK, Canvas, Place, cut, fill
from dutycycle_alerter.usage import BIN_WIDTH, BINS, LOW_UTILIZATION_PERCENT, UserUsage

_LEAST = 0.05
"""What is less would read as 0.0: its bar is too low to see, and has no figure."""


def histogram(canvas: Canvas, bins: Sequence[float], place: Place, *, size: float = 10) -> None:
    """20 bars with their values above them and utilization below; what is under 15 % is set off."""
    at = canvas.axes(place)
    most = max(*bins, 0) or 1
    at.set_xlim(0, 100)
    at.set_ylim(0, most)
    at.set_yticks([])
    at.set_xticks([])
    at.plot([0, 100], [0, 0], color=INK, alpha=2 * FAINT, linewidth=1, clip_on=False)
    low = int(LOW_UTILIZATION_PERCENT / BIN_WIDTH)
    for part, color in ((range(low), IDLE), (range(low, BINS), BUSY)):
        fill(at, [_bar(i, bins[i]) for i in part if bins[i] > 0], facecolor=color, alpha=0.85)
    for i, value in enumerate(bins):
        if value >= _LEAST:
            x, y = place.left + place.width * (i + 0.5) / BINS, place.bottom + place.height * value / most
            canvas.text(x, y + 0.8 * size, _short(value), size=size, ha="center")
    for mark in range(0, 101, 10):
        x = place.left + place.width * mark / 100
        align = "left" if mark == 0 else "right" if mark == 100 else "center"
        text = f"{mark} %" if mark == 100 else f"{mark}"
        canvas.text(x, place.bottom - 0.9 * size, text, size=size, quiet=True, ha=align)


def users(canvas: Canvas, shown: Sequence[UserUsage], place: Place, pitch: float, *, time_scale: float) -> None:
    """One bar per user, as long as their measured GPU-hours: what was busy, then what was wasted."""
    most = max((user.observed for user in shown), default=0) or 1
    name, figure = 92, 104
    room = place.width - name - figure
    for i, user in enumerate(shown):
        y = place.bottom + place.height - (i + 0.5) * pitch
        canvas.text(place.left + name - 8, y, cut(user.user, 13), ha="right")
        left = place.left + name
        for seconds, color, alpha in ((user.busy, BUSY, 0.85), (user.wasted, IDLE, 0.85)):
            width = room * seconds / most
            canvas.box(Place(left, y - pitch * 0.28, width, pitch * 0.56), color, alpha=alpha)
            left += width
        mean = "" if user.mean_percent is None else f", {user.mean_percent:.0f} %"
        canvas.text(left + 7, y, f"{hours(user.wasted * time_scale)} h{mean}", size=10, quiet=True, ha="left")


def _bar(i: int, value: float) -> list[tuple[float, float]]:
    start, end = (i + 0.08) * BIN_WIDTH, (i + 0.92) * BIN_WIDTH
    return [(start, 0), (start, value), (end, value), (end, 0)]


def _short(value: float) -> str:
    """As wide as its bar, about."""
    if value >= 999.5:
        return f"{value / 1000:.1f}k" if value < 9950 else f"{value / 1000:,.0f}k"
    return f"{value:.0f}" if isinstance(value, int) or value >= 9.95 else f"{value:.1f}"
