"""The weekly report as a message: its sentences, tables of figures and users, and the histogram of users."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import tzinfo

from dutycycle_alerter import figures, plots
from dutycycle_alerter.headline import rule_name
from dutycycle_alerter.notify.composing.content import Report, Table
from dutycycle_alerter.notify.composing.pictures import LARGEST
from dutycycle_alerter.notify.composing.voices import Voice
from dutycycle_alerter.notify.model import Picture
from dutycycle_alerter.reports.weekly import WeeklyReport
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.usage import LOW_UTILIZATION_PERCENT

Weekly = Callable[[float, float], WeeklyReport]
"""The report from an instant to another, both in Unix seconds. Raises StoreError."""

_ROWS = 10
_PICTURE = "users"
_logger = logging.getLogger(__name__)


def told(
    weekly: WeeklyReport, voice: Voice, zone: tzinfo | None, time_scale: float, picture: Picture | None = None
) -> Report:
    """The report in a voice, with moments of `zone`."""
    title = f"GPUs, {_days((weekly.until - weekly.since) * time_scale)} to {_moment(weekly.until, zone)}"
    if weekly.empty:
        return Report(title, (_nobody(weekly),), (), "", "")
    tables = (
        _table(voice, "Compared with the time before", ("", "Now", "Before"), weekly.figures()),
        _table(
            voice,
            "Who wasted most",
            ("User", "Wasted GPU-hours", "Mean utilization"),
            ((used.name or "unknown", figures.hours(used.wasted), _mean(used.mean_percent)) for used in weekly.top),
        ),
        _table(
            voice,
            "How often rules were wrong",
            ("Rule", "Incidents", "Reported", "Of these intended"),
            (
                (rule_name(rule.name), f"{rule.opened:,}", f"{rule.told:,}", figures.percent(rule.wrong_share))
                for rule in weekly.rules
            ),
        ),
    )
    return Report(
        title=title,
        lines=tuple(voice.said(line) for line in weekly.lines(zone)),
        tables=tuple(table for table in tables if table.rows),
        picture="" if picture is None else picture.name,
        picture_alt="" if picture is None else picture.alt,
    )


def histogram(weekly: WeeklyReport) -> Picture | None:
    """The users by mean utilization; None where nothing was measured, or where drawing fails."""
    if not weekly.measured:
        return None
    users, low = figures.count(weekly.measured, "user"), f"{weekly.under} under {LOW_UTILIZATION_PERCENT:.0f} %"
    if weekly.share_under is not None:
        low += f" with {figures.percent(weekly.share_under)} of the measured GPU-hours"
    try:
        png = plots.users_histogram_picture(weekly.histogram, note=f"{users}, {low}", largest=LARGEST)
    except Exception:
        # A report without its picture is better than none.
        _logger.exception("the weekly report goes without a picture")
        return None
    return Picture(_PICTURE, png, f"Histogram of {users} by mean utilization: {low}.")


def _nobody(weekly: WeeklyReport) -> str:
    if not weekly.gpus_seen:
        return "Unknown. No GPU was seen in these days, so nothing is known of who held one."
    said = "Nobody held a GPU in these days"
    return f"{said}; nothing earlier is known." if weekly.before is None else f"{said}, nor in as many before."


def _table(voice: Voice, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """The first column names, the others are figures."""
    known = [tuple(voice.name(cell) for cell in row) for row in rows]
    numbers = tuple(place > 0 for place in range(len(heads)))
    return Table(title, tuple(heads), numbers, tuple(known[:_ROWS]), max(0, len(known) - _ROWS))


def _mean(percent: float | None) -> str:
    return figures.percent(None if percent is None else percent / 100)


def _days(seconds: float) -> str:
    """`7 days`, also where one of them had an hour more or less; `90 min`."""
    days = round(seconds / 86400)
    return figures.count(days, "day") if days and abs(seconds - days * 86400) <= 3600 else format_duration(seconds)


def _moment(timestamp: float, zone: tzinfo | None) -> str:
    at = figures.local(timestamp, zone)
    return f"{at:%a} {at.day} {at:%b}, {at:%H:%M}"
