"""Pictures as PNG, for files and messages: the only package that touches matplotlib.

matplotlib is imported by the first picture, not by importing this package, and draws one at a time: it is not
thread-safe. The same data always gives the same bytes.
"""

from __future__ import annotations

import threading
from datetime import tzinfo
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dutycycle_alerter.analysis import Analysis

_drawing = threading.Lock()


def fleet_picture(analysis: Analysis, *, timezone: tzinfo | None = None) -> bytes:
    """One picture of a fleet: its figures, users and GPU-hours by utilization, who wastes most, and the worst finding.

    Times of day are of `timezone`; None is the machine's own.
    """
    from dutycycle_alerter.plots import poster  # noqa: PLC0415 - matplotlib takes a third of a second to import

    with _drawing:
        return poster.draw(analysis, timezone)
