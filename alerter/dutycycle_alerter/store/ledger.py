"""The usage ledger: GPU-seconds and joules per hour, job and GPU model; what reports of any length are made from."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor
from typing import Any

import sqlalchemy as sa

from dutycycle_alerter.model import Consumption, Job
from dutycycle_alerter.store.schema import incident, usage_hour
from dutycycle_alerter.store.types import storable_name
from dutycycle_alerter.usage import UserUsage

HOUR = 3600.0


_ADDED = ("allocated", "observed", "busy")
_ROW = sa.and_(
    usage_hour.c.hour == sa.bindparam("of_hour"),
    usage_hour.c.job == sa.bindparam("of_job"),
    usage_hour.c.model == sa.bindparam("of_model"),
)
_MORE = {name: usage_hour.c[name] + sa.bindparam(f"more_{name}") for name in _ADDED}
_ENERGY = {"energy": sa.func.coalesce(usage_hour.c.energy, 0.0) + sa.bindparam("more_energy")}
# Of one row as of a hundred thousand: made once, and executed with many rows at a time.
_ADD = sa.update(usage_hour).where(_ROW).values(_MORE)
_ADD_WITH_ENERGY = sa.update(usage_hour).where(_ROW).values(_MORE | _ENERGY)


def add(connection: sa.Connection, at: float, items: Iterable[tuple[Job, Consumption]], *, hour: float = HOUR) -> None:
    """Add what jobs consumed since the previous pass to the hour that it belongs to, else to that of `at`.

    Runs in the transaction that also moves the watermark up to which consumption is counted, so that nothing is added
    twice. `hour` is 3600 s divided by the time scale.
    """
    added: dict[tuple[float, str, str], tuple[Job, list[Consumption]]] = {}
    for job, used in items:
        start = floor((at if used.at is None else used.at) / hour) * hour
        added.setdefault((start, storable_name(job.id), storable_name(used.model)), (job, []))[1].append(used)
    known = _known(connection, {start for start, _, _ in added})
    new: list[dict[str, Any]] = []
    more: list[dict[str, Any]] = []
    more_with_energy: list[dict[str, Any]] = []
    for key, (job, parts) in added.items():
        sums = {name: sum(getattr(part, name) for part in parts) for name in _ADDED}
        energies = [part.energy for part in parts if part.energy is not None]
        energy = sum(energies) if energies else None
        if key not in known:
            new.append(_row(key, job, sums, energy))
            continue
        values = dict(zip(("of_hour", "of_job", "of_model"), key, strict=True))
        values |= {f"more_{name}": value for name, value in sums.items()}
        if energy is None:
            more.append(values)
        else:
            more_with_energy.append(values | {"more_energy": energy})
    for statement, rows in ((sa.insert(usage_hour), new), (_ADD, more), (_ADD_WITH_ENERGY, more_with_energy)):
        if rows:
            connection.execute(statement, rows)


def _known(connection: sa.Connection, hours: Iterable[float]) -> set[tuple[float, str, str]]:
    columns = usage_hour.c
    query = sa.select(columns.job, columns.model)
    return {
        (hour, job, model) for hour in hours for job, model in connection.execute(query.where(columns.hour == hour))
    }


def _row(
    key: tuple[float, str, str], job: Job, sums: dict[str, float], energy: float | None
) -> dict[str, str | float | None]:
    return {
        **dict(zip(("hour", "job", "model"), key, strict=True)),
        "cluster": job.cluster,
        "scheduler": job.scheduler,
        "user": job.user,
        "account": job.account,
        **sums,
        "energy": energy,
    }


def users(connection: sa.Connection, *, since: float, until: float, factor: float = 1.0) -> list[UserUsage]:
    """Each user's use in the hours that begin within [since, until), most wasted first.

    Seconds and joules are multiplied by `factor`.
    """
    columns = usage_hour.c
    query = (
        sa.select(
            columns.user,
            sa.func.sum(columns.allocated).label("allocated"),
            sa.func.sum(columns.observed).label("observed"),
            sa.func.sum(columns.busy).label("busy"),
            sa.func.sum(columns.energy).label("energy"),
            sa.func.count(columns.job.distinct()).label("jobs"),
        )
        .where(columns.hour >= since, columns.hour < until)
        .group_by(columns.user)
    )
    by_user = (
        sa.select(incident.c.user, sa.func.count().label("opened"))
        .where(incident.c.opened_at >= since, incident.c.opened_at < until, incident.c.kind == "efficiency")
        .group_by(incident.c.user)
    )
    opened: dict[str, int] = {row.user: row.opened for row in connection.execute(by_user)}
    found = [
        UserUsage(
            user=row.user,
            allocated=row.allocated * factor,
            observed=row.observed * factor,
            busy=row.busy * factor,
            energy=None if row.energy is None else row.energy * factor,
            jobs=row.jobs,
            incidents=opened.get(row.user, 0),
        )
        for row in connection.execute(query)
    ]
    return sorted(found, key=lambda usage: (-usage.wasted, usage.user))
