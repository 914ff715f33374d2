"""The owner of each workload that holds GPUs, or did until a few minutes ago, as the schedulers resolved it.

The store keeps them, so that every alerter on it publishes the same ones, also after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import sqlalchemy as sa

from dutycycle_alerter.model import JobEvidence, workload_of
from dutycycle_alerter.store.in_parts import in_parts
from dutycycle_alerter.store.schema import workload_owner
from dutycycle_alerter.store.types import storable_name
from dutycycle_alerter.views import WorkloadOwner

KEPT = 900.0
"""Wall seconds for which an owner is kept after its workload ended: recording rules look back as far."""

_LABELS = ("cluster", "workload", "user", "account", "job", "kind")
_KEY = sa.tuple_(workload_owner.c.cluster, workload_owner.c.workload)


def resolved(jobs: Iterable[JobEvidence]) -> Iterator[WorkloadOwner]:
    """Return the owner of each part of the jobs that a scheduler resolved; of a job without a user nothing."""
    for item in jobs:
        job = item.job
        if job.user:
            for workload in item.workloads:
                name = workload_of(job.id, job.cluster)
                yield WorkloadOwner(job.cluster, workload, job.user, job.account, name, job.owner)


def save(connection: sa.Connection, now: float, found: Iterable[WorkloadOwner]) -> None:
    """Store the owners of the present, mark those that are missing as ended, and delete what ended long ago.

    Only differences are written: most evaluations change nothing.
    """
    present = {(row[0], row[1]): row for row in map(_row, found)}
    columns = workload_owner.c
    rows = connection.execute(sa.select(*(columns[name] for name in _LABELS), columns.ended_at)).all()
    stored = {(row[0], row[1]): tuple(row) for row in rows}
    changed = [key for key, row in present.items() if stored.get(key) != row]
    ended = [key for key, row in stored.items() if key not in present and row[-1] is None]
    for some in in_parts([key for key in changed if key in stored]):
        connection.execute(sa.delete(workload_owner).where(_KEY.in_(some)))
    if changed:
        names = (*_LABELS, "ended_at")
        values = [dict(zip(names, present[key], strict=True)) for key in changed]
        connection.execute(sa.insert(workload_owner), values)
    for some in in_parts(ended):
        connection.execute(sa.update(workload_owner).where(_KEY.in_(some)).values(ended_at=now))
    connection.execute(sa.delete(workload_owner).where(columns.ended_at < now - KEPT))


def everything(connection: sa.Connection) -> Sequence[WorkloadOwner]:
    """Return every stored owner, in the order of their workloads."""
    columns = [workload_owner.c[name] for name in _LABELS]
    return [WorkloadOwner(*row) for row in connection.execute(sa.select(*columns).order_by(*columns[:2]))]


def users(connection: sa.Connection) -> Mapping[str, str]:
    """Return the user of each workload; not of a name that workloads of several users in several clusters have."""
    found: dict[str, str] = {}
    several = set()
    for one in everything(connection):
        if found.setdefault(one.workload, one.user) != one.user:
            several.add(one.workload)
    return {workload: user for workload, user in found.items() if workload not in several}


def _row(owner: WorkloadOwner) -> tuple[str | None, ...]:
    # As they are read again, so that odd text is no difference. It has not ended.
    one = owner
    return (*map(storable_name, (one.cluster, one.workload, one.user, one.account, one.job, one.kind)), None)
