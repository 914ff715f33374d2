"""Moments as people write them on a command line: a time, a day, or so long ago."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo

from dutycycle_alerter.scale import parse_duration

_FORMS = "write a day (2026-11-20), a time (2026-11-20T08:30:00Z) or how long ago (7d)"


def parse_moment(text: str, *, now: float, zone: tzinfo | None, end_of_day: bool = False) -> float:
    """Unix seconds of a moment. Raises ValueError.

    `7d` is so long before `now`. A day and a time without offset are those of `zone` (None: the machine's own); a day
    is its first instant, or with `end_of_day` the first of the next.
    """
    text = text.strip()
    try:
        if text[:1].isdigit() and text[-1:].isalpha() and text[-1:] not in "Zz":
            return now - parse_duration(text)
        if len(text) == len("2026-11-20"):
            day = date.fromisoformat(text) + timedelta(days=1 if end_of_day else 0)
            return _local(datetime(day.year, day.month, day.day), zone)  # noqa: DTZ001 - the zone comes next
        moment = datetime.fromisoformat(text)
        return moment.timestamp() if moment.tzinfo is not None else _local(moment, zone)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{text[:60]!r} is no moment: {_FORMS}") from error


def write_moment(timestamp: float) -> str:
    """A moment in UTC, to the second."""
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _local(moment: datetime, zone: tzinfo | None) -> float:
    return moment.replace(tzinfo=zone).timestamp() if zone is not None else moment.astimezone().timestamp()
