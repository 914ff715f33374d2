"""Figures of a whole fleet as people read them, to one decimal since they are compared, and days with their year."""

from __future__ import annotations

from datetime import tzinfo

from dutycycle_alerter import figures
from dutycycle_alerter.figures import UNKNOWN, local


def percent(ratio: float | None) -> str:
    """A ratio 0..1 as `54.7 %`."""
    return UNKNOWN if ratio is None else f"{100 * ratio:.1f} %"


def hours(seconds: float) -> str:
    """Seconds as hours, `1,083.4`; with more digits where they are few. The unit is the caller's."""
    return f"{seconds / 3600:,.1f}" if seconds >= 36_000 else figures.hours(seconds)


def days(start: float | None, end: float | None, zone: tzinfo | None) -> str:
    """The days from one moment to another, `18 Jun 2022 to 11 Feb 2026`; empty where there are none."""
    if start is None or end is None:
        return ""
    first, last = local(start, zone), local(end, zone)
    said = f"{first.day} {first:%b %Y}"
    return said if first.date() == last.date() else f"{said} to {last.day} {last:%b %Y}"


def minute(t: float, zone: tzinfo | None) -> str:
    """A moment long ago: `3 Dec 2025, 07:42`."""
    then = local(t, zone)
    return f"{then.day} {then:%b %Y, %H:%M}"
