"""Idle gaps that are longer than a row: a recording has no columns for them, but its rows show them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dutycycle_alerter.recordings.model import Floats

IDLE = 0.05
"""A sample at or under this is idle: the exporter's bound for idle gaps."""

_SHORTEST, _LONG = 30.0, 600.0


def idle_rows(utilization: Floats, short_gaps: Floats) -> NDArray[np.bool_]:
    """Which rows were idle all through: at 0, or hardly above it without any gap that ended within the row."""
    found: NDArray[np.bool_] = (utilization == 0) | ((utilization <= IDLE) & ~(short_gaps > 0))
    return found


def long_gaps(
    idle: NDArray[np.bool_], apart: NDArray[np.bool_], lengths: Floats, *, time_scale: float = 1.0
) -> tuple[Floats, Floats]:
    """For each row the seconds credited to gaps of 30 to 600 s, and to longer ones, as the exporter credits them: a gap
    whole when it ends, one that reaches 600 s then, and from then on as it grows.

    Rows stand for `lengths` seconds; one that is `apart` does not follow the row before it.
    """
    middle, longest = np.zeros(len(idle)), np.zeros(len(idle))
    shortest, long = _SHORTEST / time_scale, _LONG / time_scale
    run = 0.0
    for i, (is_idle, length) in enumerate(zip(idle.tolist(), lengths.tolist(), strict=True)):
        if run and (apart[i] or not is_idle):
            if shortest <= run < long:
                middle[i - 1 if apart[i] else i] += run
            run = 0.0
        if is_idle:
            before, run = run, run + length
            if run >= long:
                longest[i] = length if before >= long else run
    if shortest <= run < long:
        middle[-1] += run
    return middle, longest
