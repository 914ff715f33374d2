"""Deletes what is older than its retention, a little at a time: nobody waits long for a writer that cleans."""

from __future__ import annotations

import logging

import sqlalchemy as sa

from dutycycle_alerter.incidents.model import State
from dutycycle_alerter.settings.store import Retention
from dutycycle_alerter.store.schema import event, fleet_hour, incident, usage_hour
from dutycycle_alerter.store.transactions import Transactions

log = logging.getLogger(__name__)

_AT_ONCE = 200
"""Incidents that one transaction deletes, with some ten events each."""

_LEDGERS = (usage_hour, fleet_hour)


def forget(database: Transactions, retention: Retention, now: float) -> None:
    """Delete resolved incidents with their events, and hours of the ledgers, that are past their retention.

    `retention` is scaled (wall seconds). Each transaction deletes some, and what is left is deleted by whoever comes
    next. Raises StoreError.
    """
    incidents = 0
    while deleted := _forget_incidents(database, now - retention.incidents):
        incidents += deleted
    hours = sum(_forget_hours(database, ledger, now - retention.usage) for ledger in _LEDGERS)
    if incidents or hours:
        log.info("deleted %d incidents and %d hours of usage that were past their retention", incidents, hours)


def _forget_incidents(database: Transactions, before: float) -> int:
    columns = incident.c
    # What was resolved before was opened before, and of that there is an index.
    old = sa.and_(columns.opened_at < before, columns.resolved_at < before, columns.state == State.RESOLVED.value)
    with database.write() as connection:
        numbers = connection.execute(sa.select(columns.id).where(old).limit(_AT_ONCE)).scalars().all()
        if numbers:
            connection.execute(sa.delete(event).where(event.c.incident_id.in_(numbers)))
            connection.execute(sa.delete(incident).where(columns.id.in_(numbers)))
    return len(numbers)


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
