"""Durations: how they are written, and the one factor by which tests, replays and the demo shorten them."""

from __future__ import annotations

import re
from decimal import Decimal

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
# The pattern takes quadratic time on a long row of digits, and durations are also read from the web.
_LONGEST = 64


def parse_duration(text: str) -> float:
    """Seconds of a duration as Prometheus writes it (`90s`, `1h30m`, `250ms`). Raises ValueError."""
    text = text.strip()
    parts = _PART.findall(text) if len(text) <= _LONGEST else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
        raise ValueError(f"{shown!r} is not a duration: write it like 30s, 15m or 1h30m")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def write_duration(seconds: float) -> str:
    """A duration as `parse_duration` reads it, exactly: in the largest of d, h, m that divides it, else in seconds."""
    for unit in ("d", "h", "m"):
        if seconds >= UNITS[unit] and seconds % UNITS[unit] == 0:
            return f"{int(seconds // UNITS[unit])}{unit}"
    return f"{Decimal(repr(seconds)).normalize():f}s"


def format_duration(seconds: float) -> str:
    """A duration for people, two units at most: `45 s`, `12 min`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 9.95:
        return f"{seconds:.0f} s" if seconds == int(seconds) else f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        hours, rest = divmod(minutes, 60)
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days, rest = divmod(round(minutes / 60), 24)
    return f"{days} d {rest} h" if rest else f"{days} d"
