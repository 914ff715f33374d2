"""The usage ledger: GPU-seconds and joules per hour, job and GPU model; what reports of any length are made from."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor

import sqlalchemy as sa

from dutycycle_alerter.model import Consumption, Job
from dutycycle_alerter.store.schema import incident, usage_hour
from dutycycle_alerter.usage import UserUsage

HOUR = 3600.0


def add(connection: sa.Connection, at: float, items: Iterable[tuple[Job, Consumption]], *, hour: float = HOUR) -> None:
    """Add what jobs consumed since the previous pass to the hour that it belongs to, else to that of `at`.

    Runs in the transaction that also moves the watermark up to which consumption is counted, so that nothing is added
    twice. `hour` is 3600 s divided by the time scale.
    """
    for job, used in items:
        start = floor((at if used.at is None else used.at) / hour) * hour
        key = sa.and_(usage_hour.c.hour == start, usage_hour.c.job == job.id, usage_hour.c.model == used.model)
        added = {name: usage_hour.c[name] + getattr(used, name) for name in ("allocated", "observed", "busy")}
        if used.energy is not None:
            added["energy"] = sa.func.coalesce(usage_hour.c.energy, 0.0) + used.energy
        if connection.execute(sa.update(usage_hour).where(key).values(added)).rowcount == 0:
            connection.execute(
                sa.insert(usage_hour).values(
                    hour=start,
                    job=job.id,
                    model=used.model,
                    cluster=job.cluster,
                    scheduler=job.scheduler,
                    user=job.user,
                    account=job.account,
                    allocated=used.allocated,
                    observed=used.observed,
                    busy=used.busy,
                    energy=used.energy,
                )
            )


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
        .where(incident.c.opened_at >= since, incident.c.opened_at < until)
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
