"""Hours of the fleet: GPU-seconds that were allocated, free, out of service or unknown, beside what waited for GPUs.

Numbers of GPUs are what a pass sees; between two passes they are taken to have been what the later one sees. An alerter
that was away for long counts no more than the longest time for which that is likely.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from math import floor

import sqlalchemy as sa

from dutycycle_alerter.fleet_now import FleetAmounts
from dutycycle_alerter.store.database import get_meta, set_meta
from dutycycle_alerter.store.ledger import HOUR
from dutycycle_alerter.store.schema import fleet_hour

UNTIL = "fleet_until"
"""Key of the instant up to which hours of the fleet are counted."""


_AMOUNTS = tuple(field.name for field in fields(FleetAmounts))[2:]


def add(
    connection: sa.Connection, now: float, items: Iterable[FleetAmounts], *, longest: float, hour: float = HOUR
) -> None:
    """Count the time since the last call at these numbers of GPUs, `longest` wall seconds of it at most.

    The first call counts nothing. Runs in the pass's transaction, so that no time is counted twice. `hour` is 3600 s
    divided by the time scale.
    """
    since = get_meta(connection, UNTIL)
    set_meta(connection, UNTIL, now)
    if since is None or since >= now:
        return
    spans = list(_hours(max(float(since), now - longest), now, hour))
    for item in items:
        amounts = {name: value for name in _AMOUNTS if (value := getattr(item, name)) is not None}
        # That nobody waited is known only where it is written.
        if any(amounts.values()) or item.waited is not None:
            for start, seconds in spans:
                _add(connection, start, item, {name: count * seconds for name, count in amounts.items()})


def _hours(since: float, until: float, hour: float) -> Iterator[tuple[float, float]]:
    """The hours that a time lies in, and how many seconds of it."""
    while since < until:
        start = floor(since / hour) * hour
        end = min(until, start + hour)
        if end <= since:  # an hour so short that adding it is lost in rounding
            return
        yield start, end - since
        since = end


def _add(connection: sa.Connection, hour: float, item: FleetAmounts, amounts: dict[str, float]) -> None:
    columns = fleet_hour.c
    key = sa.and_(columns.hour == hour, columns.cluster == item.cluster, columns.model == item.model)
    added = {name: sa.func.coalesce(columns[name], 0.0) + amount for name, amount in amounts.items()}
    if connection.execute(sa.update(fleet_hour).where(key).values(added)).rowcount == 0:
        row = {"hour": hour, "cluster": item.cluster, "model": item.model, **amounts}
        connection.execute(sa.insert(fleet_hour).values(row))


def fleet(connection: sa.Connection, *, since: float, until: float, factor: float = 1.0) -> list[FleetAmounts]:
    """GPU-seconds by cluster and model in the hours that begin within [since, until), multiplied by `factor`."""
    columns = fleet_hour.c
    query = (
        sa.select(columns.cluster, columns.model, *(sa.func.sum(columns[name]).label(name) for name in _AMOUNTS))
        .where(columns.hour >= since, columns.hour < until)
        .group_by(columns.cluster, columns.model)
        .order_by(columns.cluster, columns.model)
    )
    found = []
    for row in connection.execute(query).mappings():
        amounts = {name: factor * row[name] for name in _AMOUNTS if row[name] is not None}
        found.append(FleetAmounts(row["cluster"], row["model"], **amounts))
    return found
