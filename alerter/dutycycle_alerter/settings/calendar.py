"""Moments, times of day and time zones in the configuration. None of them is changed by the time scale."""

from __future__ import annotations

import difflib
import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

_YEARS = range(2000, 2200)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?([Zz]|[+-]\d\d:\d\d)")
_CLOCK = re.compile(r"(\d?\d):(\d\d)")
_DAY = 24 * 60


class Day(StrEnum):
    """A day of the week."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"

    @property
    def number(self) -> int:
        """0 for Monday, as `date.weekday` counts."""
        return list(Day).index(self)


def _moment(value: object) -> object:
    if isinstance(value, str):
        value = _read(value.strip())
    if not isinstance(value, date):
        # pydantic wants a ValueError.
        raise ValueError("expected a day (2026-12-31) or a time with offset (2026-12-31T18:00:00Z)")  # noqa: TRY004
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError("a time says its offset, such as 2026-12-31T18:00:00+01:00 or 2026-12-31T17:00:00Z")
    if value.year not in _YEARS:
        raise ValueError(f"a year lies between {_YEARS[0]} and {_YEARS[-1]}")
    return value


def _read(text: str) -> object:
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text.upper())
        if _TIME.fullmatch(f"{text}Z"):
            return datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise ValueError(f"there is no such day or time: {error}") from error
    return None


def _clock(value: object) -> object:
    # YAML reads 22:00 without quotes as a number to the base of sixty: 1320.
    if isinstance(value, int) and not isinstance(value, bool) and 60 <= value <= _DAY:
        value = f"{value // 60:02}:{value % 60:02}"
    found = _CLOCK.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or int(found[2]) > 59 or 60 * int(found[1]) + int(found[2]) > _DAY:
        raise ValueError("a time of day is written like 08:30; 24:00 is the end of the day")
    return f"{int(found[1]):02}:{found[2]}"


def _known_zone(name: str) -> str:
    zone_of(name)
    return name


Moment = Annotated[
    date | datetime, BeforeValidator(_moment), PlainSerializer(lambda value: value.isoformat(), when_used="json")
]
"""A day, or an instant with its offset from UTC."""
Clock = Annotated[str, BeforeValidator(_clock)]
"""A time of day, HH:MM."""
Zone = Annotated[str, AfterValidator(_known_zone)]
"""A time zone by its name."""


def zone_of(name: str) -> tzinfo:
    """The time zone of this name. Raises ValueError with the nearest name that there is."""
    if name == "UTC":
        # Also on a machine without a database of time zones.
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = difflib.get_close_matches(name[:80], available_timezones(), n=1)
        hint = f"did you mean {near[0]}?" if near else "write it like Europe/Oslo or UTC"
        raise ValueError(f"{name[:80]!r} is not a time zone: {hint}") from error


def beginning(moment: date | datetime, zone: tzinfo) -> float:
    """The instant of a moment: of a day, its first, in `zone`."""
    if isinstance(moment, datetime):
        return moment.timestamp()
    return _earliest(moment, zone)


def end(moment: date | datetime, zone: tzinfo) -> float:
    """The instant at which a moment is over: of a day, the first of the next, in `zone`."""
    if isinstance(moment, datetime):
        return moment.timestamp()
    return _earliest(moment + timedelta(days=1), zone)


def span(day: date, opens: str, closes: str, zone: tzinfo) -> tuple[float, float]:
    """From a time of that day to the next such time, at most a day later.

    Where the clocks are changed in between, a time that the day has twice or not at all is taken so that the span is
    the longer.
    """
    first, last = _minutes(opens), _minutes(closes)
    later = day + timedelta(days=(last <= first) + last // _DAY)
    return min(_both(day, first, zone)), max(_both(later, last % _DAY, zone))


def _minutes(clock: str) -> int:
    hours, minutes = clock.split(":")
    return 60 * int(hours) + int(minutes)


def _earliest(day: date, zone: tzinfo) -> float:
    return min(_both(day, 0, zone))


def _both(day: date, minutes: int, zone: tzinfo) -> tuple[float, float]:
    """The instants that a local time may mean: two where the clocks are changed, else one."""
    local = datetime.combine(day, time(minutes // 60, minutes % 60), zone)
    return local.timestamp(), local.replace(fold=1).timestamp()
