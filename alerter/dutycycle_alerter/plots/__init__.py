"""Pictures as PNG, for files and messages: the only package that touches matplotlib.

matplotlib is imported by the first picture, not by importing this package, and draws one at a time: it is not
thread-safe. The same data always gives the same bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dutycycle_alerter.analysis import Analysis
    from dutycycle_alerter.plots.comparison import Bars
    from dutycycle_alerter.views import GpuSeries

_drawing = threading.Lock()


def fleet_picture(analysis: Analysis, *, timezone: tzinfo | None = None) -> bytes:
    """One picture of a fleet: its figures, users and GPU-hours by utilization, who wastes most, and the worst finding.

    Times of day are of `timezone`; None is the machine's own.
    """
    from dutycycle_alerter.plots import poster  # noqa: PLC0415 - matplotlib takes a third of a second to import

    with _drawing:
        return poster.draw(analysis, timezone)


def utilization_picture(
    series: Sequence[GpuSeries], *, began: float, until: float, largest: int, timezone: tzinfo | None = None
) -> bytes:
    """One job's GPUs over time, to be read on a phone; the time from `began` to `until` (Unix seconds) is set off.

    It is made coarser where it would have more than `largest` bytes.
    """
    from dutycycle_alerter.plots import curves  # noqa: PLC0415 - as above
    from dutycycle_alerter.plots.timeline import Band  # noqa: PLC0415

    with _drawing:
        return curves.draw(series, Band(began, until, "the condition began"), timezone, largest)


def users_picture(
    users: Sequence[int], seconds: Sequence[float], *, people: int, under: int, title: str = "", note: str = ""
) -> bytes:
    """Users and their measured GPU-seconds by mean utilization, in bins of 5 points; `people` are all users, and
    `under` the measured ones below 15 %.
    """
    from dutycycle_alerter.plots import report  # noqa: PLC0415 - as above

    with _drawing:
        return report.histograms(
            title or "How well users used their GPUs", note, users, seconds, people=people, under=under
        )


def bars_picture(shown: Bars) -> bytes:
    """What is compared, a bar a row."""
    from dutycycle_alerter.plots import report  # noqa: PLC0415 - as above

    with _drawing:
        return report.compared(shown)


def users_histogram_picture(bins: Sequence[int], *, note: str, largest: int) -> bytes:
    """Users by 5-point bins of mean utilization, to be read on a phone; coarser beyond `largest` bytes."""
    from dutycycle_alerter.plots import users  # noqa: PLC0415 - as above

    with _drawing:
        return users.draw(bins, note, largest)
