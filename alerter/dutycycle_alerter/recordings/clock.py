"""nvidia-smi's timestamps, local wall times without a zone, as Unix times."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

from dutycycle_alerter.recordings.cells import BadLineError, shown
from dutycycle_alerter.recordings.model import LATEST

# nvidia-smi writes 2023/03/14 07:52:06.453; spreadsheets and scripts make ISO 8601 of it, perhaps with an offset.
_STAMP = re.compile(r"(\d{4})([/-])(\d\d)\2(\d\d)[ T](\d\d:\d\d):(\d\d(?:[.,]\d{1,9})?)(Z|[+-]\d\d:?\d\d)?")
_COMPLETE = re.compile(r"\d{4}([/-])\d\d\1\d\d[ T]\d\d:\d\d:\d\d[.,](\d{3}|\d{6}Z)")

_SECONDS = re.compile(r":\d\d\.\d{3}", re.ASCII)

# Rows of several GPUs are written one after the other and may be out of order by this much.
_SLACK = 60.0


def looks_like_time(cell: str) -> bool:
    """Whether nvidia-smi may have written this as a timestamp."""
    return _STAMP.fullmatch(cell) is not None


def is_complete(cell: str) -> bool:
    """Whether nothing of a timestamp is missing: nvidia-smi writes milliseconds."""
    return _COMPLETE.fullmatch(cell) is not None


def _parts(cell: str) -> tuple[str, float]:
    """The minute, with its offset from UTC if there is one, and the seconds in it. Raises BadLineError."""
    match = _STAMP.fullmatch(cell)
    if match is None:
        raise BadLineError(f"{shown(cell)} is not a time as nvidia-smi writes it")
    year, _, month, day, clock, seconds, offset = match.groups()
    return f"{year}/{month}/{day} {clock}{offset or ''}", float(seconds.replace(",", "."))


class Clock:
    """Reads the timestamps of one file in its order. `zone` None is this machine's own.

    When clocks are set back an hour occurs twice. A time in it is taken as the first, unless that lies before the row
    above; a file that begins within the second hour cannot be told apart from one in the first.
    """

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone
        self._minutes: dict[str, tuple[float, float]] = {}
        self._last = 0.0

    def unix(self, cell: str) -> float:
        """Unix time of `2023/03/14 07:52:06.453` or of ISO 8601.

        Raises BadLineError for what is not such a time, or never was.
        """
        minute = cell[:16]
        if minute in self._minutes and _SECONDS.fullmatch(cell, 16):
            seconds = float(cell[17:])  # as nvidia-smi writes it: half the time of what follows
        else:
            minute, seconds = _parts(cell)
        if seconds >= 61:
            raise BadLineError(f"{shown(cell)} is not a time")
        if minute not in self._minutes:
            self._minutes[minute] = self._convert(minute)
        first, second = self._minutes[minute]
        t = first + seconds
        if second != first and t < self._last - _SLACK:
            t = second + seconds
        self._last = t
        return t

    def _convert(self, minute: str) -> tuple[float, float]:
        """The Unix times of a wall-clock minute: twice the same, but for an hour that occurs twice."""
        has_offset = len(minute) > len("2023/03/14 07:52")
        try:
            # Without an offset the zone is added below.
            wall = datetime.strptime(minute, "%Y/%m/%d %H:%M%z" if has_offset else "%Y/%m/%d %H:%M")  # noqa: DTZ007
            first, second = (wall.timestamp() if has_offset else self._unix(wall.replace(fold=fold)) for fold in (0, 1))
        except (ValueError, OverflowError, OSError):
            raise BadLineError(f"{shown(minute)} is not a time") from None
        if not 0 < first < LATEST:
            raise BadLineError(f"{shown(minute)} is not a time after 1970")
        if not has_offset and self._wall(first) != wall and self._wall(second) != wall:
            raise BadLineError(f"{shown(minute)} was skipped when clocks were set forward: is --timezone right?")
        return first, second

    def _unix(self, wall: datetime) -> float:
        # astimezone() of a naive time asks the machine's own zone, and heeds fold.
        return (wall.astimezone(UTC) if self._zone is None else wall.replace(tzinfo=self._zone)).timestamp()

    def _wall(self, t: float) -> datetime:
        there = datetime.fromtimestamp(t, UTC).astimezone(self._zone)
        return there.replace(tzinfo=None, fold=0)
