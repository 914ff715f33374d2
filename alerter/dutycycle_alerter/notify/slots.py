"""When digests and weekly reports are due: times of day in a zone, also where the clocks are changed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from math import floor

from dutycycle_alerter.settings.calendar import Day

_DAY = 86400.0
_LOOK = 8
"""Days around an instant among which the slots before and after it are: a week, and one for the zone."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Every day, or every week on `day`, at a time of day (HH:MM, up to 24:00).

    At another time scale than 1 there are no days that people live by: then a slot comes each scaled day or week.
    """

    at: str
    day: Day | None
    zone: tzinfo
    time_scale: float = 1.0

    def after(self, now: float) -> float:
        """The first slot that is later (Unix seconds)."""
        if self.time_scale != 1:
            return (floor(now / self._period) + 1) * self._period
        return next(slot for slot in self._around(now) if slot > now)

    def latest(self, now: float) -> float:
        """The newest slot that is not later."""
        if self.time_scale != 1:
            return floor(now / self._period) * self._period
        return max(slot for slot in self._around(now) if slot <= now)

    @property
    def _period(self) -> float:
        return _DAY * (1 if self.day is None else 7) / self.time_scale

    def _around(self, now: float) -> list[float]:
        hours, minutes = (int(part) for part in self.at.split(":"))
        days, hours = divmod(hours, 24)
        today = datetime.fromtimestamp(now, self.zone).date()
        found = []
        for offset in range(-_LOOK, _LOOK + 1):
            date = today + timedelta(days=offset)
            if self.day is None or date.weekday() == self.day.number:
                # A time that the day has twice is the first of the two; one that it lacks is as much later.
                local = datetime.combine(date + timedelta(days=days), time(hours, minutes), self.zone)
                found.append(local.timestamp())
        return found
