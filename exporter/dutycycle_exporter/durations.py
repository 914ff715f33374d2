"""Durations as Prometheus writes them."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
# The pattern takes quadratic time on a long row of digits: minutes for a file of nothing else.
_LONGEST = 64


def parse(text: str) -> float | None:
    """Seconds of `5s`, `1m30s` or `250ms`; None for what is no duration, or zero."""
    if len(text) > _LONGEST:
        return None
    parts = _PART.findall(text)
    if "".join(number + unit for number, unit in parts) != text:
        return None
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    return seconds if 0 < seconds < float("inf") else None
