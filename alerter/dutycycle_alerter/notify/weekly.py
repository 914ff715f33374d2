"""Puts weekly reports among the messages of their receivers: the newest one that is due, and one a week."""

from __future__ import annotations

from dataclasses import replace
from math import floor

from dutycycle_alerter.notify.slots import Slots
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.calendar import zone_of
from dutycycle_alerter.settings.notify import Weekly
from dutycycle_alerter.store import deliveries, weekly
from dutycycle_alerter.store.ledger import HOUR
from dutycycle_alerter.store.transactions import Transactions
from dutycycle_alerter.store.weekly import Reported

_WEEK = 7 * 86400.0
_LEAST = 6 * 86400.0
"""Between two reports: less than a week in which clocks are changed, and more than what another time of day adds."""


class WeeklyReports:
    """Those of one receiver. `settings` are scaled (wall seconds)."""

    def __init__(self, settings: Settings, of: Weekly, store: Transactions) -> None:
        self._of = of
        self._store = store
        self._slots = Slots(of.at, of.day, zone_of(settings.notify.timezone), settings.time_scale)
        self._week, self._least, self._hour = (each / settings.time_scale for each in (_WEEK, _LEAST, HOUR))

    def put(self, now: float) -> None:
        """The newest one, if it is due; one that was due before it was configured is not. Raises StoreError."""
        name, slot = self._of.receiver, self._slots.latest(now)
        with self._store.read() as connection:
            known = weekly.read(connection, name)
        if known is None or known.since > now:  # a clock that was set back begins anew
            with self._store.write() as connection:
                weekly.keep(connection, name, Reported(now))
        elif slot > known.since and (known.until is None or abs(slot - known.until) >= self._least):
            with self._store.write() as connection:
                key = f"weekly/{name}/{slot:.3f}"
                deliveries.put_report(connection, name, key, self._range(slot), now)
                weekly.keep(connection, name, replace(known, until=slot))

    def _range(self, slot: float) -> tuple[float, float]:
        """What the report of a slot is about, in full hours of the ledger: at half past, one is not over. A week begins
        where the one before ended, also where clocks were changed within it.
        """
        since = slot - self._of.since
        if self._of.since == self._week:
            since = self._slots.latest(slot - self._hour)
        return self._begun(since), self._begun(slot)

    def _begun(self, at: float) -> float:
        """When the hour began in which a moment lies."""
        return floor(at / self._hour) * self._hour
