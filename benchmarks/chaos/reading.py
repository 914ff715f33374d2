"""What the store, the sinks and the workload have at the end of a run, as evidence."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dutycycle_alerter.notify.receivers.email_message import message_id

from .alerters import LEASE, PASS, Replica
from .cases import ERASES, FORGED, HOSTILE
from .happened import Happened
from .machines import INTERVAL, Machine
from .receivers import SENDER, SINKS
from .record import JobTruth, Record, StoredDelivery, StoredEvent, StoredIncident, StoredNotice
from .site import Site
from .watching import Watcher

_PAGES = ("/", "/incidents?state=all", "/users", "/gpus")
_ANSWERS = ("/api/v1/incidents", "/api/v1/status", "/metrics")
_NEWEST = 10


def read(
    site: Site,
    watcher: Watcher,
    faults: tuple[Happened, ...],
    jobs: tuple[JobTruth, ...],
    began: float,
    ended: float,
    broke: str,
) -> Record:
    """Everything; the site must still run, and its jobs with it: what they hold is asked for first."""
    held = _rows(site, "SELECT job, sum(allocated), sum(observed), sum(busy) FROM usage_hour GROUP BY job")
    return Record(
        began=began,
        ended=ended,
        time_scale=site.time_scale,
        interval=INTERVAL / site.time_scale,
        pass_interval=PASS / site.time_scale,
        lease=max(LEASE, PASS / site.time_scale),
        gpus={name: machine.gpus for name, machine in site.machines.items()},
        instances=site.instances,
        faults=faults,
        jobs=jobs,
        incidents=tuple(_incidents(site)),
        events=tuple(_events(site)),
        notices=tuple(_notices(site)),
        deliveries=tuple(_deliveries(site)),
        taken=site.receivers.taken({replica.url: name for name, replica in site.replicas.items()}),
        sinks=SINKS,
        firing=tuple(watcher.firing),
        looks=tuple(watcher.looks),
        writes=site.database.written(),
        exporters=tuple(watcher.exporters),
        alerters=tuple(watcher.alerters),
        pages=tuple(_pages(site)),
        answers=(*_answers(site), *sorted(watcher.alerts)),
        ended_by_themselves=tuple(watcher.ended),
        ledger={job: allocated for job, allocated, _, _ in held},
        measured={job: (observed, busy) for job, _, observed, busy in held},
        logs=site.logs(),
        secrets=site.secrets,
        hostile=(HOSTILE, "<img", "<!channel>"),
        unprintable=(ERASES, FORGED),
        stalls=tuple(watcher.stalls),
        scrapes=_scrapes(site, began, ended),
        broke=broke,
    )


def _scrapes(site: Site, since: float, until: float) -> dict[str, tuple[float, ...]]:
    """Nothing of a Prometheus that does not answer even now: what asked it before tells of that."""
    try:
        return site.prometheus.scrapes(since, until)
    except OSError:
        return {}


def _rows(site: Site, statement: str) -> list[tuple[Any, ...]]:
    return site.database.server.execute(statement, database=site.database.name)


def _incidents(site: Site) -> list[StoredIncident]:
    columns = 'id, subject, kind, rule, state, started_at, opened_at, resolved_at, resolution, "user", gpus, severity'
    return [
        StoredIncident(*row, nodes=frozenset(gpu["node"] for gpu in gpus), severity=severity)
        for *row, gpus, severity in _rows(site, f"SELECT {columns} FROM incident ORDER BY id")
    ]


def _events(site: Site) -> list[StoredEvent]:
    statement = "SELECT id, incident_id, at, kind, actor, data FROM incident_event ORDER BY id"
    return [StoredEvent(*row) for row in _rows(site, statement)]


def _notices(site: Site) -> list[StoredNotice]:
    statement = "SELECT id, incident_id, receiver, audience, news, at, delivery_id, dropped FROM notice ORDER BY id"
    return [StoredNotice(*row) for row in _rows(site, statement)]


def _deliveries(site: Site) -> list[StoredDelivery]:
    statement = "SELECT id, key, receiver, at, attempts, sent_at, failed_at, error FROM delivery ORDER BY id"
    found = []
    for row in _rows(site, statement):
        key, receiver = row[1], row[2]
        mark = message_id(receiver, key, SENDER) if receiver == "mail" else key
        found.append(StoredDelivery(*row, mark=mark))
    return found


def _pages(site: Site) -> list[tuple[str, str]]:
    """Of both alerters the lists, what is active by itself, and what came last."""
    numbers = [number for (number,) in _rows(site, "SELECT id FROM incident WHERE state <> 'resolved' ORDER BY id")]
    numbers += [number for (number,) in _rows(site, f"SELECT id FROM incident ORDER BY id DESC LIMIT {_NEWEST}")]
    paths = [*_PAGES, *(f"/incidents/{number}" for number in dict.fromkeys(numbers))]
    return [found for replica in site.replicas.values() for path in paths for found in _got(replica, path)]


def _answers(site: Site) -> list[tuple[str, str]]:
    """What is for programs."""
    found = [found for replica in site.replicas.values() for path in _ANSWERS for found in _got(replica, path)]
    return found + [found for machine in site.machines.values() for found in _got(machine, "/metrics")]


def _got(program: Replica | Machine, path: str) -> list[tuple[str, str]]:
    # One that does not answer even now is told of by what was asked of it before.
    with suppress(OSError):
        status, text = program.get(path, timeout=30)
        if status == 200:
            return [(program.url + path, text)]
    return []
