"""The histogram of users by itself, to be read on a phone."""

from __future__ import annotations

from collections.abc import Sequence

from dutycycle_alerter.plots import bars
from dutycycle_alerter.plots.canvas import Canvas, Place

_WIDTH, _HEIGHT, _EDGE = 440, 210, 8


def draw(bins: Sequence[int], note: str, largest: int) -> bytes:
    """See `plots.users_histogram_picture`."""
    canvas = Canvas(_WIDTH, _HEIGHT)
    canvas.text(_EDGE, _HEIGHT - 14, "Users by mean utilization", size=12.5, fontweight="bold")
    canvas.text(_EDGE, _HEIGHT - 32, note, size=10.5, quiet=True)
    bars.histogram(canvas, bins, Place(_EDGE, 30, _WIDTH - 2 * _EDGE, _HEIGHT - 90))
    return canvas.small_png(title="Users by mean utilization", largest=largest)
