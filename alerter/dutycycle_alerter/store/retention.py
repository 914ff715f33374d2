"""Deletes what is older than its retention, a little at a time: nobody waits long for a writer that cleans."""

from __future__ import annotations

import logging

import sqlalchemy as sa

from dutycycle_alerter.incidents.model import State
from dutycycle_alerter.settings.store import Retention
from dutycycle_alerter.store import deliveries, expectations
from dutycycle_alerter.store.database import get_meta, set_meta
from dutycycle_alerter.store.schema import event, fleet_hour, incident, notice, thread, usage_hour
from dutycycle_alerter.store.transactions import Transactions

log = logging.getLogger(__name__)

_AT_ONCE = 200
"""Incidents that one transaction deletes, with some ten events each."""

_LEDGERS = (usage_hour, fleet_hour)

UNTIL = "housekeeping_until"
"""Key of the instant for which housekeeping was done."""


def trusted_now(database: Transactions, now: float, *, longest: float) -> float:
    """The instant for which housekeeping is to be done: `now`, but at most `longest` wall seconds after the one of the
    last time.

    What is deleted is gone for good, and a clock may be a year ahead for a moment: then next to nothing is. Who was
    away for long catches up in several runs. Raises StoreError.
    """
    with database.write() as connection:
        last = get_meta(connection, UNTIL)
        until = now if last is None else min(now, float(last) + longest)
        if last is None or until > float(last):
            # A clock that is behind for a moment must not make all that was done due again, a few hours at a time.
            set_meta(connection, UNTIL, until)
    return until


def forget(database: Transactions, retention: Retention, now: float) -> None:
    """Delete resolved incidents with their events and notices, what was said to be intended and is over, messages, and
    hours of the ledgers, that are past their retention. The newest incident stays.

    `retention` is scaled (wall seconds). Each transaction deletes some, and what is left is deleted by whoever comes
    next. Raises StoreError.
    """
    incidents = 0
    while deleted := _forget_incidents(database, now - retention.incidents):
        incidents += deleted
    while _forget_expectations(database, now - retention.incidents):
        pass
    while _forget_messages(database, now - retention.messages):
        pass
    hours = sum(_forget_hours(database, ledger, now - retention.usage) for ledger in _LEDGERS)
    if incidents or hours:
        log.info("deleted %d incidents and %d hours of usage that were past their retention", incidents, hours)


def _forget_incidents(database: Transactions, before: float) -> int:
    columns = incident.c
    # What was resolved before was opened before, and of that there is an index.
    old = sa.and_(columns.opened_at < before, columns.resolved_at < before, columns.state == State.RESOLVED.value)
    with database.write() as connection:
        newest = _newest(connection)
        unneeded = sa.and_(old, columns.id.not_in(newest))
        numbers = connection.execute(sa.select(columns.id).where(unneeded).limit(_AT_ONCE)).scalars().all()
        if numbers:
            for table in (event, notice, thread):
                connection.execute(sa.delete(table).where(table.c.incident_id.in_(numbers)))
            connection.execute(sa.delete(incident).where(columns.id.in_(numbers)))
    return len(numbers)


def _newest(connection: sa.Connection) -> list[int]:
    """The incident with the highest number, and the one with the newest event.

    Without them SQLite would give these numbers again: what happens next would pass for planned already, and links in
    old mails would be about other incidents.
    """
    queries = (
        sa.select(sa.func.max(incident.c.id)),
        sa.select(event.c.incident_id).order_by(event.c.id.desc()).limit(1),
    )
    numbers = (connection.execute(query).scalar() for query in queries)
    return [number for number in numbers if number is not None]


def _forget_expectations(database: Transactions, before: float) -> int:
    with database.write() as connection:
        return expectations.forget(connection, before, limit=_AT_ONCE)


def _forget_messages(database: Transactions, before: float) -> int:
    with database.write() as connection:
        return deliveries.forget(connection, before, limit=_AT_ONCE)


def _forget_hours(database: Transactions, ledger: sa.Table, before: float) -> int:
    """Hour by hour; returns how many."""
    forgotten = 0
    while True:
        with database.write() as connection:
            oldest = connection.execute(sa.select(sa.func.min(ledger.c.hour))).scalar()
            if oldest is None or oldest >= before:
                return forgotten
            connection.execute(sa.delete(ledger).where(ledger.c.hour == oldest))
        forgotten += 1
