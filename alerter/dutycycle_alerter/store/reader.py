"""What the page and the command line show, read from the store; and what people do to incidents, written to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import sqlalchemy as sa

from dutycycle_alerter.errors import ExpectationNotFoundError, IncidentNotFoundError, StoreError
from dutycycle_alerter.fleet_now import FleetAmounts
from dutycycle_alerter.incidents import actions
from dutycycle_alerter.incidents.expectations import Covered, Expectation, Scope, expected_of, withdrawn
from dutycycle_alerter.incidents.model import Event, Incident, Severity, State, Step
from dutycycle_alerter.model import Gpu, workload_of
from dutycycle_alerter.reports.model import Asked, RulesReport, UsageReport, WasteReport
from dutycycle_alerter.settings.policies import Expectations
from dutycycle_alerter.settings.types import divided
from dutycycle_alerter.store import (
    counters,
    expectations,
    fleet_ledger,
    incidents,
    ledger,
    listing,
    mutes,
    outbox,
    owners,
    reports,
)
from dutycycle_alerter.store.clock import clock_of
from dutycycle_alerter.store.database import Database, get_meta, open_database
from dutycycle_alerter.store.keys import signing_key
from dutycycle_alerter.store.postgresql import LOCK_WAIT
from dutycycle_alerter.store.schema import gpu_now
from dutycycle_alerter.store.showing import gpu_as_shown, utilization
from dutycycle_alerter.store.status import STATUS, load_status
from dutycycle_alerter.usage import UserUsage
from dutycycle_alerter.views import (
    GpuNow,
    GpuSeries,
    IncidentFilter,
    Listed,
    OutboxDepth,
    Status,
    WorkloadOwner,
    drawn_first,
)

AT_ONCE = 12
"""Requests that may be at the database at a time: they leave connections to passes and to the lease."""

_LEAD = 0.25
"""A job's plot begins this share of the incident's length before it, so that the change can be seen."""


class StoreReader:
    """Implements `views.Reader` and `views.Actions`. `clock` gives wall time; `limits` is what may be said to be
    intended, not scaled.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float] = time.time,
        limits: Expectations = Expectations(),  # noqa: B008 - frozen
    ) -> None:
        self._database = database
        self._clock = clock
        self._limits = limits
        self._places = threading.BoundedSemaphore(AT_ONCE)

    def incidents(self, wanted: IncidentFilter, *, limit: int = 100, offset: int = 0) -> tuple[Sequence[Incident], int]:
        """The page of incidents, active before resolved and newest first, and how many match in all."""
        with self._reading() as connection:
            return incidents.find(connection, wanted, limit=limit, offset=offset)

    def active_counts(self) -> Mapping[tuple[str, Severity, State], int]:
        """How many incidents are not resolved, by rule, severity and state; those of which there are none left out."""
        with self._reading() as connection:
            return incidents.active_counts(connection)

    def unresolved(self, limit: int) -> tuple[Sequence[Listed], int]:
        """The newest incidents that are not resolved, in few words, and how many there are in all."""
        with self._reading() as connection:
            return listing.unresolved(connection, limit=limit)

    def owners(self) -> Sequence[WorkloadOwner]:
        """Return the owner of every workload that holds GPUs now or did a few minutes ago."""
        with self._reading() as connection:
            return owners.everything(connection)

    def incident(self, incident_id: int) -> Incident | None:
        """One incident, or None."""
        with self._reading() as connection:
            return incidents.get(connection, incident_id)

    def events(self, incident_id: int) -> Sequence[Event]:
        """The incident's history, oldest first."""
        with self._reading() as connection:
            return incidents.events_of(connection, incident_id)

    def events_after(self, event_id: int) -> Sequence[tuple[int, Incident, Event]]:
        """What happened after an event: (event number, incident as it is now, event), oldest first."""
        with self._reading() as connection:
            found = []
            for number, incident_id, item in incidents.events_after(connection, event_id):
                incident = incidents.get(connection, incident_id)
                if incident is not None:
                    found.append((number, incident, item))
            return found

    def last_event_id(self) -> int:
        """The newest event's number, 0 where there is none."""
        with self._reading() as connection:
            return incidents.last_event_id(connection)

    def series(self, incident: Incident, *, until: float, most: int | None = None) -> Sequence[GpuSeries]:
        """Utilization of each GPU of the incident's job, from somewhat before it started to its end (or `until`). Of
        more than `most` GPUs only as many have points, those of `drawn_first`.
        """
        end = until if incident.resolved_at is None else min(until, incident.resolved_at)
        start = incident.started_at - _LEAD * (end - incident.started_at)
        workloads = incident.workloads or (workload_of(incident.subject, incident.cluster),)
        with self._reading() as connection:
            found = {
                number: _gpu(row, row.key[3] if incident.workloads else "")
                for number, row in counters.series_of(connection, workloads)
                # Another cluster's job may have the same number.
                if row.labels.get("cluster", "") == incident.cluster
            }
            places = {workload: place for place, workload in enumerate(incident.workloads)}
            numbers = sorted(found, key=lambda number: _place(found[number], places))
            drawn = numbers
            if most is not None and len(numbers) > most:
                concerned, used = frozenset(incident.gpus), counters.roughly_used(connection, numbers, start, end)
                drawn = sorted(numbers, key=lambda n: drawn_first(used.get(n), concerned=found[n] in concerned))[:most]
            points = {
                number: tuple(utilization(rows)) for number, rows in counters.load_points(connection, drawn, start, end)
            }
        return [GpuSeries(found[number], points.get(number, ())) for number in numbers]

    def expectations(self, *, current: bool = True, user: str | None = None) -> Sequence[Expectation]:
        """What people marked as intended: what counts now, ending first; or all that is remembered, newest first. Of
        one user only what is of them, or of a job that an incident of theirs is about.
        """
        with self._reading() as connection:
            if current:
                return expectations.in_force(connection, self._clock(), user=user)
            return expectations.everyone(connection, user=user)

    def muted(self, receiver: str, user: str) -> bool:
        """Whether a user wants no more of what a receiver sends to users."""
        with self._reading() as connection:
            return mutes.muted(connection, receiver, user)

    def wasted(self, user: str, *, since: float) -> float:
        """The GPU-seconds that a user's jobs wasted within incidents since then, as notifications count them."""
        with self._reading() as connection:
            return outbox.wasted(connection, [user], since)[user]

    def users(self, *, since: float, until: float) -> Sequence[UserUsage]:
        """Each user's use over a range, most wasted GPU-seconds first."""
        with self._reading() as connection:
            factor = float(get_meta(connection, "time_scale") or 1.0)
            return ledger.users(connection, since=since, until=until, factor=factor)

    def fleet(self, *, since: float, until: float) -> Sequence[FleetAmounts]:
        """GPU-seconds of the fleet by cluster and model over a range; those of the queue without a model."""
        with self._reading() as connection:
            factor = float(get_meta(connection, "time_scale") or 1.0)
            return fleet_ledger.fleet(connection, since=since, until=until, factor=factor)

    def usage_report(self, asked: Asked) -> UsageReport:
        """Use by user, account or model, as `asked.kind` says."""
        with self._reading() as connection:
            return reports.usage(connection, asked, factor=float(get_meta(connection, "time_scale") or 1.0))

    def waste_report(self, asked: Asked) -> WasteReport:
        """Where GPU-hours went."""
        with self._reading() as connection:
            return reports.waste(connection, asked, factor=float(get_meta(connection, "time_scale") or 1.0))

    def rules_report(self, asked: Asked) -> RulesReport:
        """How often each rule was right."""
        with self._reading() as connection:
            return reports.rules(connection, asked, factor=float(get_meta(connection, "time_scale") or 1.0))

    def gpus(self) -> Sequence[GpuNow]:
        """Every GPU, by node and index."""
        with self._reading() as connection:
            stale_after = (get_meta(connection, STATUS) or {}).get("stale_after", 45.0)
            rows = connection.execute(sa.select(gpu_now)).all()
            users = owners.users(connection)
        now = self._clock()
        shown = [gpu_as_shown(row, users, stale=now - row.scraped_at > stale_after) for row in rows]
        return sorted(shown, key=lambda item: (item.gpu.node, len(item.gpu.index), item.gpu.index, item.gpu.mig))

    def status(self) -> Status:
        """The alerter's own state, as of its last pass."""
        with self._reading() as connection:
            return load_status(connection, self._clock())

    def outbox(self) -> Mapping[str, OutboxDepth]:
        """What waits to be told, by receiver; those for which nothing does left out."""
        with self._reading() as connection:
            return outbox.depths(connection)

    def acknowledge(self, incident_id: int, *, actor: str, note: str = "") -> Incident:
        """Somebody takes care of it."""
        return self._act(
            incident_id, lambda _, item: actions.acknowledge(item, actor=actor, now=self._clock(), note=note)
        )

    def snooze(self, incident_id: int, *, until: float, actor: str, note: str = "") -> Incident:
        """Quiet until a wall time; then open again if it still holds."""
        return self._act(
            incident_id, lambda _, item: actions.snooze(item, until=until, actor=actor, now=self._clock(), note=note)
        )

    def resolve(self, incident_id: int, *, actor: str, note: str = "") -> Incident:
        """Closed by a person; does not open again until the condition has cleared once."""
        return self._act(incident_id, lambda _, item: actions.resolve(item, actor=actor, now=self._clock(), note=note))

    def intend(
        self, incident_id: int, *, actor: str, reason: str, scope: Scope, until: float, covered: Covered = Covered.OPEN
    ) -> Incident:
        """It was intended, of that job or of all jobs of its user, until a wall time."""

        def change(connection: sa.Connection, item: Incident) -> Step:
            factor = float(get_meta(connection, "time_scale") or 1.0)
            said = expected_of(
                item,
                scope=scope,
                actor=actor,
                reason=reason,
                now=self._clock(),
                until=until,
                limits=divided(self._limits, factor),
                time_scale=factor,
                covered=covered,
            )
            return actions.intend(item, expectations.add(connection, said))

        return self._act(incident_id, change)

    def withdraw(self, expectation_id: int, *, actor: str) -> Expectation:
        """What was said counts no longer, as the histories of its incident and of those that it closed tell."""
        with self._place(), self._database.write() as connection:
            # The incident is locked before the expectation, as by who says it.
            said = expectations.get(connection, expectation_id)
            number = None if said is None else said.incident_id
            incident = None if number is None else incidents.get(connection, number, to_write=True)
            before = expectations.get(connection, expectation_id, to_write=True)
            if before is None:
                raise ExpectationNotFoundError(f"there is no expectation {expectation_id}")
            now = self._clock()
            after = withdrawn(before, actor=actor, now=now)
            expectations.save(connection, after)
            if incident is not None:
                incidents.save(connection, incident, actions.withdraw(incident, after, actor=actor, now=now))
            gone = actions.taken_back(after, actor=actor, now=now)
            incidents.note(connection, [(item, gone) for item in expectations.closed_by(connection, after)])
        return after

    def mute(self, receiver: str, user: str) -> None:
        """The user wants no more of what a receiver sends to users."""
        with self._place(), self._database.write() as connection:
            mutes.mute(connection, receiver, user, at=self._clock())

    def unmute(self, receiver: str, user: str) -> None:
        """The user wants it again."""
        with self._place(), self._database.write() as connection:
            mutes.unmute(connection, receiver, user)

    def key(self) -> bytes:
        """The key with which links and sessions are signed."""
        return signing_key(self._database)

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()

    @contextmanager
    def _place(self) -> Iterator[None]:
        if not self._places.acquire(timeout=LOCK_WAIT):
            raise StoreError("the database is busy: too much is asked of it at once; try again later")
        try:
            yield
        finally:
            self._places.release()

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with self._place(), self._database.read() as connection:
            yield connection

    def _act(self, incident_id: int, change: Callable[[sa.Connection, Incident], Step]) -> Incident:
        with self._place(), self._database.write() as connection:
            before = incidents.get(connection, incident_id, to_write=True)
            if before is None:
                raise IncidentNotFoundError(incident_id)
            after = incidents.save(connection, before, change(connection, before))
        assert after is not None  # noqa: S101 - an action never removes an incident
        return after


def _gpu(row: counters.SeriesRow, part: str) -> Gpu:
    """`part` is the workload that is a part of the job; empty where the workload is the job."""
    node, uuid, mig, _ = row.key
    return Gpu(node, row.gpu, uuid, mig, row.labels.get("model", ""), part)


def _place(gpu: Gpu, parts: Mapping[str, int]) -> tuple[int, str, int, str]:
    """In which order a job's GPUs come: by its parts as they are listed, then by node and index."""
    return parts.get(gpu.workload, 0), gpu.node, len(gpu.index), gpu.index


def open_reader(url: str, limits: Expectations = Expectations()) -> StoreReader:  # noqa: B008 - frozen
    """Open a store to look at it and to act on incidents. Raises StoreError."""
    database = open_database(url)
    return StoreReader(database, clock_of(database), limits)
