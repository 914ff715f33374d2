"""The usage ledger: GPU-seconds and joules per hour, job and GPU model; what reports of any length are made from."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor
from typing import Any, Literal

import sqlalchemy as sa

from dutycycle_alerter.model import Consumption, Job
from dutycycle_alerter.store.schema import incident, usage_hour
from dutycycle_alerter.store.types import storable_name
from dutycycle_alerter.usage import GroupUsage, UserUsage, known_sum

HOUR = 3600.0

GroupedBy = Literal["user", "account", "model"]


_ADDED = ("allocated", "observed", "busy")
_KNOWN = ("energy", "idle", "spread")
"""What may be unknown: of an hour the sum of what is known, NULL where nothing is."""
_WHOSE = ("cluster", "scheduler", "user", "account")
"""Whose a row is. Empty is not known yet: what answers later fills it in."""
_ROW = sa.and_(
    usage_hour.c.hour == sa.bindparam("of_hour"),
    usage_hour.c.job == sa.bindparam("of_job"),
    usage_hour.c.model == sa.bindparam("of_model"),
)


def _sum(name: str) -> sa.ColumnElement[float]:
    old, more = usage_hour.c[name], sa.bindparam(f"more_{name}", type_=usage_hour.c[name].type)
    # NULL and something is something.
    return sa.func.coalesce(old + more, old, more) if name in _KNOWN else old + more


def _filled(name: str) -> sa.ColumnElement[str]:
    known = usage_hour.c[name]
    return sa.case((known == "", sa.bindparam(f"its_{name}", type_=known.type)), else_=known)


# Of one row as of a hundred thousand: made once, and executed with many rows at a time.
_ADD = (
    sa.update(usage_hour)
    .where(_ROW)
    .values({name: _sum(name) for name in (*_ADDED, *_KNOWN)} | {name: _filled(name) for name in _WHOSE})
)


def add(connection: sa.Connection, at: float, items: Iterable[tuple[Job, Consumption]], *, hour: float = HOUR) -> None:
    """Add what jobs consumed since the previous pass to the hour that it belongs to, else to that of `at`.

    Runs in the transaction that also moves the watermark up to which consumption is counted, so that nothing is added
    twice. `hour` is 3600 s divided by the time scale.
    """
    added: dict[tuple[float, str, str], tuple[list[Job], list[Consumption]]] = {}
    for job, used in items:
        start = floor((at if used.at is None else used.at) / hour) * hour
        jobs, parts = added.setdefault((start, storable_name(job.id), storable_name(used.model)), ([], []))
        jobs.append(job)
        parts.append(used)
    known = _known(connection, {start for start, _, _ in added})
    new: list[dict[str, Any]] = []
    more: list[dict[str, Any]] = []
    for key, (jobs, parts) in added.items():
        whose = {name: next(filter(None, (getattr(job, name) for job in jobs)), "") for name in _WHOSE}
        sums: dict[str, float | None] = {name: sum(getattr(part, name) for part in parts) for name in _ADDED}
        sums |= {name: known_sum(getattr(part, name) for part in parts) for name in _KNOWN}
        if key not in known:
            new.append(dict(zip(("hour", "job", "model"), key, strict=True)) | whose | sums)
            continue
        values: dict[str, Any] = dict(zip(("of_hour", "of_job", "of_model"), key, strict=True))
        values |= {f"its_{name}": value for name, value in whose.items()}
        more.append(values | {f"more_{name}": value for name, value in sums.items()})
    for statement, rows in ((sa.insert(usage_hour), new), (_ADD, more)):
        if rows:
            connection.execute(statement, rows)


def _known(connection: sa.Connection, hours: Iterable[float]) -> set[tuple[float, str, str]]:
    columns = usage_hour.c
    query = sa.select(columns.job, columns.model)
    return {
        (hour, job, model) for hour in hours for job, model in connection.execute(query.where(columns.hour == hour))
    }


_OF = usage_hour.c
# A sharer's busy time may exceed what it was observed for. Each row says at most all of that, not their sum: otherwise
# what is wasted would depend on what rows are grouped by.
BUSY = sa.case((_OF.busy > _OF.observed, _OF.observed), else_=_OF.busy)
"""Busy seconds of a row, no more than it was observed."""
WASTED = _OF.observed - BUSY
"""Seconds of a row that were observed and not busy."""
IDLE = sa.case((_OF.idle > WASTED, WASTED), else_=_OF.idle)
"""The part of these on GPUs that did nothing; NULL where that is not known."""
_SUMMED = {"busy": BUSY, "idle": IDLE}


def grouped(
    connection: sa.Connection,
    by: GroupedBy,
    *,
    since: float,
    until: float,
    factor: float = 1.0,
    cluster: str | None = None,
    user: str | None = None,
) -> list[GroupUsage]:
    """Use in the hours that begin within [since, until) by user, account or model, most wasted first; of one cluster or
    one user where these are given.

    Seconds and joules are multiplied by `factor`. Incidents are those about efficiency that were opened in the range;
    of models they are not known.
    """
    columns = usage_hour.c
    group: sa.ColumnElement[str] = columns[by]
    if user is None and connection.dialect.name == "sqlite":
        # By the column as it stands, SQLite with statistics (after ANALYZE) goes through the index of users, to a row
        # here and a row there: of ten million rows in eight times the time that it takes through the hours.
        group = group.concat("")
    query = (
        sa.select(
            group.label("name"),
            *(sa.func.sum(_SUMMED.get(name, columns[name])).label(name) for name in (*_ADDED, *_KNOWN)),
            sa.func.count(columns.job.distinct()).label("jobs"),
        )
        .where(*in_range(usage_hour, since, until, cluster=cluster, user=user))
        .group_by(group)
    )
    opened = {} if by == "model" else _opened(connection, by, since, until, cluster, user)
    found = [
        GroupUsage(
            name=row.name,
            allocated=row.allocated * factor,
            observed=row.observed * factor,
            busy=row.busy * factor,
            energy=None if row.energy is None else row.energy * factor,
            idle=None if row.idle is None else row.idle * factor,
            spread=None if row.spread is None else row.spread * factor,
            jobs=row.jobs,
            incidents=opened.get(row.name, 0),
        )
        for row in connection.execute(query)
    ]
    return sorted(found, key=lambda usage: (-usage.wasted, usage.name))


def users(connection: sa.Connection, *, since: float, until: float, factor: float = 1.0) -> list[UserUsage]:
    """Each user's use, as `grouped` has it."""
    return [
        UserUsage(one.name, one.allocated, one.observed, one.busy, one.energy, one.jobs, one.incidents)
        for one in grouped(connection, "user", since=since, until=until, factor=factor)
    ]


def begins(connection: sa.Connection) -> float | None:
    """The first hour of the ledger; None where it is empty."""
    first: float | None = connection.execute(sa.select(sa.func.min(usage_hour.c.hour))).scalar()
    return first


def in_range(
    table: sa.Table,
    since: float,
    until: float,
    *,
    cluster: str | None = None,
    user: str | None = None,
    at: str = "hour",
) -> list[sa.ColumnElement[bool]]:
    """The conditions of a range of a table, and of a cluster and a user where they are given."""
    columns = table.c
    conditions = [columns[at] >= since, columns[at] < until]
    if cluster is not None:
        conditions.append(columns.cluster == cluster)
    if user is not None:
        conditions.append(columns.user == user)
    return conditions


def _opened(
    connection: sa.Connection, by: GroupedBy, since: float, until: float, cluster: str | None, user: str | None
) -> dict[str, int]:
    """How many incidents about efficiency were opened, by user or account."""
    query = (
        sa.select(incident.c[by], sa.func.count())
        .where(
            *in_range(incident, since, until, cluster=cluster, user=user, at="opened_at"),
            incident.c.kind == "efficiency",
        )
        .group_by(incident.c[by])
    )
    return {row[0]: row[1] for row in connection.execute(query)}
