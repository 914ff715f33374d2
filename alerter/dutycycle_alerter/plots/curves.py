"""The GPUs of one job over time by themselves, to be read on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from dutycycle_alerter.plots.canvas import Canvas
from dutycycle_alerter.plots.timeline import Band, Timeline
from dutycycle_alerter.views import GpuSeries

_WIDTH, _EDGE = 440, 6


def draw(series: Sequence[GpuSeries], band: Band, timezone: tzinfo | None, largest: int) -> bytes:
    """See `plots.utilization_picture`."""
    timeline = Timeline(series, band, timezone, narrow=True)
    canvas = Canvas(_WIDTH, timeline.height + 2 * _EDGE)
    timeline.draw(canvas, _EDGE, _EDGE, _WIDTH - 2 * _EDGE)
    return canvas.small_png(title="Utilization of each GPU", largest=largest)
