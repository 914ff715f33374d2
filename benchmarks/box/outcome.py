"""What a run left in its store: incidents and the ledger, in scenario time and full-length durations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa

from dutycycle_alerter.incidents.model import DEVICE_CLASSES, EventKind, Incident
from dutycycle_alerter.store.database import Database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.store.schema import thread, usage_hour
from dutycycle_alerter.views import IncidentFilter

from .clock import Clock
from .model import Job, Ledger, SeenIncident, Told

_PAGE = 500
_POD = re.compile(r"k8s/[^/]*/(train-\d+)/")


class Names:
    """A pod without a process has no uid on a node where only the kubelet tells of it: it is known by its name."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._pods = {job.pod: job.workload for job in jobs if job.scheduler != "slurm"}

    def workload(self, name: str) -> str:
        found = _POD.match(name)
        return name if found is None else self._pods.get(found[1], name)


def incidents(
    store: StoreReader, told: Mapping[int, Sequence[Told]], clock: Clock, names: Names
) -> tuple[SeenIncident, ...]:
    """All of the store, oldest first, with their stories."""
    found: list[Incident] = []
    while True:
        page, total = store.incidents(IncidentFilter(), limit=_PAGE, offset=len(found))
        found += page
        if not page or len(found) >= total:
            break
    return tuple(_seen(one, tuple(told.get(one.id, ())), clock, names) for one in sorted(found, key=_number))


def _number(incident: Incident) -> int:
    return incident.id


def _seen(incident: Incident, told: tuple[Told, ...], clock: Clock, names: Names) -> SeenIncident:
    device = incident.kind in DEVICE_CLASSES
    gpu = incident.gpus[0] if device and incident.gpus else None
    opening = {EventKind.OPENED.value, EventKind.RULE_OPENED.value, EventKind.REOPENED.value}
    rules = dict.fromkeys([one.rule for one in told if one.kind in opening], None) | {incident.rule: None}
    scale = clock.time_scale
    return SeenIncident(
        id=incident.id,
        kind=incident.kind,
        workload="" if device else names.workload(incident.subject),
        gpu="" if not device else incident.subject.removeprefix("node/") if gpu is None else f"{gpu.node}/{gpu.index}",
        rule=incident.rule,
        contributing=tuple(rules),
        causes=tuple(str(cause) for cause in incident.diagnosis.causes),
        severity=incident.severity.value,
        user=incident.user,
        opened=clock.scenario(incident.opened_at),
        resolved=None if incident.resolved_at is None else clock.scenario(incident.resolved_at),
        resolution="" if incident.resolution is None else incident.resolution.value,
        wasted=None if device else incident.wasted * scale,
        told=told,
        started=clock.scenario(incident.started_at),
    )


def ledger(database: Database, time_scale: float, names: Names) -> dict[str, Ledger]:
    """Every job's use, all hours together."""
    columns = usage_hour.c
    amounts = (columns.allocated, columns.observed, columns.busy, columns.energy)
    query = sa.select(columns.job, *(sa.func.sum(column) for column in amounts)).group_by(columns.job)
    with database.read() as connection:
        rows = connection.execute(query).all()
    found: dict[str, Ledger] = {}
    for job, allocated, observed, busy, energy in rows:
        name = names.workload(job)
        before = found.get(name, Ledger(0.0, 0.0, 0.0, None))
        joules = [
            value for value in (before.energy, None if energy is None else energy * time_scale) if value is not None
        ]
        found[name] = Ledger(
            before.allocated + allocated * time_scale,
            before.observed + observed * time_scale,
            before.busy + busy * time_scale,
            sum(joules) if joules else None,
        )
    return found


def threads(database: Database) -> dict[str, int]:
    """Incidents by the `ts` of the Slack message that tells of them."""
    with database.read() as connection:
        rows = connection.execute(sa.select(thread.c.incident_id, thread.c.reference)).all()
    return {reference["ts"]: number for number, reference in rows if "ts" in reference}
