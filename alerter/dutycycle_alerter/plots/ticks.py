"""Where a time axis has its marks, and what they say: round local wall times."""

from __future__ import annotations

import math
from datetime import tzinfo

from dutycycle_alerter.figures import local

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS = (1, 5, 10, 30, *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)), *(n * _HOUR for n in (1, 2, 3, 6, 12)))
_DAYS = (1, 2, 5, 10, 30, 90, 365)


def ticks(start: float, end: float, zone: tzinfo | None, most: int = 7) -> list[tuple[float, str]]:
    """At most `most` + 1 (Unix time, text) within start..end: `14:05`, and a date at midnight or for whole days."""
    span = end - start
    steps = (*_STEPS, *(n * _DAY for n in _DAYS))
    step = next((step for step in steps if span / step <= most), None)
    if step is None:
        step = math.ceil(span / most / _DAY) * _DAY
    offset = local(start, zone).utcoffset()
    shift = offset.total_seconds() if offset is not None else 0.0
    first = math.ceil((start + shift) / step) * step - shift
    places = [first + i * step for i in range(math.floor((end - first) / step) + 1)]
    return [(t, _text(t, step, zone)) for t in places]


def _text(t: float, step: int, zone: tzinfo | None) -> str:
    then = local(t, zone)
    if step >= _DAY or (then.hour == then.minute == then.second == 0):
        return f"{then.day} {then:%b}" if step < 365 * _DAY else f"{then:%b %Y}"
    return f"{then:%H:%M:%S}" if step < _MINUTE else f"{then:%H:%M}"
