"""Puts into the outbox what is to be told of what happened to incidents.

Every change of an incident has its event, written with it. What is to be told is planned from the events, and the
number of the last one that was planned is kept in the same transaction: each is told of once, whoever wrote it, a pass
in its own transaction, a replica that serves the page, or the command line.
"""

from __future__ import annotations

from collections import defaultdict

import sqlalchemy as sa

from dutycycle_alerter.incidents.model import Event
from dutycycle_alerter.notify.owners import Due, due, is_critical
from dutycycle_alerter.notify.planning import WAKING, Notice, opening, plan
from dutycycle_alerter.notify.reasons import clause
from dutycycle_alerter.notify.routing import Routing
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.store import deliveries, incidents, outbox, weekly
from dutycycle_alerter.store.database import forget_meta, get_meta, set_meta
from dutycycle_alerter.store.outbox import Unaware
from dutycycle_alerter.store.transactions import Transactions

PLANNED = "planned_until"
"""Key of the number of the last event of which it is planned who is told."""

_AT_ONCE = 1000
"""Events that are planned together."""


class Announcer:
    """`settings` are scaled (wall seconds)."""

    def __init__(self, settings: Settings, store: Transactions) -> None:
        self._store = store
        self._settings = settings
        self._owners = settings.notify.owners
        self._time_scale = settings.time_scale
        self._receivers = [receiver.name for receiver in settings.notify.receivers]
        self._reported = [item.receiver for item in settings.notify.weekly]
        self._routing = Routing(settings.notify, settings.time_scale)

    def begin(self, now: float) -> None:
        """Begin with what happens from now on, where nobody was to be told before. Raises StoreError."""
        with self._store.write() as connection:
            deliveries.abandon(connection, self._receivers, now)
            weekly.forget_others(connection, self._reported)
            if not self._routing.routes:
                forget_meta(connection, PLANNED)
            elif get_meta(connection, PLANNED) is None:
                set_meta(connection, PLANNED, incidents.last_event_id(connection))

    def announce(self, connection: sa.Connection, now: float) -> None:
        """All that happened, in the transaction of a pass; and which users are to hear of their jobs by now."""
        if self._routing.routes:
            self._plan(connection, now)
            for receiver in self._routing.owners:
                outbox.add(connection, self._to_owners(connection, receiver, now))

    def catch_up(self, now: float) -> None:
        """What happened since the last pass: what people did. Raises StoreError."""
        if not self._routing.routes:
            return
        with self._store.read() as connection:
            if not outbox.has_news(connection, get_meta(connection, PLANNED) or 0):
                return
        with self._store.write() as connection:
            self._plan(connection, now)

    def _plan(self, connection: sa.Connection, now: float) -> None:
        before = after = get_meta(connection, PLANNED) or 0
        while events := incidents.events_after(connection, after, limit=_AT_ONCE):
            happened: defaultdict[int, list[Event]] = defaultdict(list)
            for number, incident_id, event in events:
                happened[incident_id].append(event)
                after = number
            known = outbox.told(connection, happened)
            woken = [number for number, those in happened.items() if any(map(_wakes, those))]
            unheard = outbox.unheard(connection, woken, before=events[0][0])
            notices: list[Notice] = []
            for number, incident in outbox.concerned(connection, happened).items():
                told, worse = known.get(number, set()), unheard.get(number, {})
                notices += plan(incident, happened[number], told, self._routing, now=now, unheard=worse)
            outbox.add(connection, notices)
        if after != before:
            set_meta(connection, PLANNED, after)

    def _to_owners(self, connection: sa.Connection, receiver: str, now: float) -> list[Notice]:
        """Users of jobs who are to be told by now, and were not."""
        unaware = outbox.unaware(connection, receiver)
        # Those that are due however little was wasted need no sums, and those that never are need none either.
        users = {item.user for item in unaware if self._due(item, 0.0) is None and self._due(item, float("inf"))}
        wasted = outbox.wasted(connection, users, now - self._owners.within)
        reasons = {item.incident_id: found for item in unaware if (found := self._due(item, wasted[item.user]))}
        unsubscribed = outbox.muted(connection) if reasons else set()
        notices: list[Notice] = []
        for number, incident in outbox.concerned(connection, reasons).items():
            destination = self._routing.owner(incident, receiver)
            quiet = (receiver, incident.user) in unsubscribed
            if destination is not None and (not quiet or is_critical(incident.rules, incident.severity)):
                text = clause(reasons[number], incident, self._settings)
                notices.append(opening(destination, incident, text, self._routing, now=now))
        return notices

    def _due(self, item: Unaware, wasted: float) -> Due | None:
        return due(item.rules, wasted, self._owners, time_scale=self._time_scale)


def _wakes(event: Event) -> bool:
    return event.kind in WAKING
