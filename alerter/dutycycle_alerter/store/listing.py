"""What metrics show of incidents: those that are not resolved in one cheap query, and what happened since an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from dutycycle_alerter.incidents.model import DEVICE_CLASSES, EventKind
from dutycycle_alerter.incidents.tally import COUNTED, Happened
from dutycycle_alerter.store.incidents import ACTIVE
from dutycycle_alerter.store.schema import event, incident
from dutycycle_alerter.views import Listed

_COUNTED = tuple(kind.value for kind in COUNTED)


def unresolved(connection: sa.Connection, *, limit: int) -> tuple[Sequence[Listed], int]:
    """The newest incidents that are not resolved, and how many there are in all."""
    columns = incident.c
    plain = ("id", "subject", "kind", "rule", "severity", "state", "opened_at", "wasted", "cluster", "scheduler")
    owner = ("user", "account", "partition", "namespace", "nodes")
    total = connection.execute(sa.select(sa.func.count()).select_from(incident).where(ACTIVE)).scalar_one()
    query = (
        sa.select(
            *(columns[name] for name in (*plain, *owner)),
            columns.diagnosis["causes"][0].as_string().label("cause"),
            columns.gpus[0]["index"].as_string().label("gpu"),
        )
        .where(ACTIVE)
        # Not the bare column: SQLite would go through all that ever opened, in the order of their index.
        .order_by((columns.opened_at + 0.0).desc(), columns.id.desc())
        .limit(limit)
    )
    return [_listed(row) for row in connection.execute(query)], int(total)


def newest(connection: sa.Connection) -> int:
    """The number of the newest event that counts, 0 where there is none."""
    query = sa.select(event.c.id).where(event.c.kind.in_(_COUNTED)).order_by(event.c.id.desc()).limit(1)
    return int(connection.execute(query).scalar() or 0)


def happened_after(connection: sa.Connection, number: int, *, limit: int = 1000) -> Sequence[Happened]:
    """What counts and came after an event, oldest first.

    Whoever writes such an event holds the lock of writers until it commits: none appears with a number below one that
    was read.
    """
    query = (
        sa.select(
            event.c.id.label("number"),
            event.c.kind.label("event"),
            event.c.at,
            event.c.data,
            event.c.incident_id,
            incident.c.kind,
            incident.c.rule,
            incident.c.severity,
            incident.c.opened_at,
            incident.c.resolved_at,
            incident.c.wasted,
        )
        .join(incident, incident.c.id == event.c.incident_id)
        .where(event.c.id > number, event.c.kind.in_(_COUNTED))
        .order_by(event.c.id)
        .limit(limit)
    )
    return [_happened(row) for row in connection.execute(query)]


def _listed(row: Any) -> Listed:
    about = "job"
    if row.kind in DEVICE_CLASSES:
        about = "node" if row.subject.startswith("node/") else "gpu"
    return Listed(
        id=row.id,
        subject=row.subject,
        about=about,
        rule=row.rule,
        severity=row.severity,
        state=row.state,
        opened_at=row.opened_at,
        wasted=row.wasted,
        cluster=row.cluster,
        scheduler=row.scheduler,
        user=row.user,
        account=row.account,
        partition=row.partition,
        namespace=row.namespace,
        nodes=tuple(row.nodes.split()),
        gpu=row.gpu or "",
        cause=row.cause or "",
    )


def _happened(row: Any) -> Happened:
    data = row.data if isinstance(row.data, dict) else {}
    return Happened(
        number=row.number,
        event=EventKind(row.event),
        at=row.at,
        incident_id=row.incident_id,
        kind=row.kind,
        rule=data.get("rule") or row.rule,
        severity=data.get("severity") or row.severity,
        resolution=data.get("resolution") or "",
        opened_at=row.opened_at,
        resolved_at=row.resolved_at,
        wasted=row.wasted,
    )
