"""What the page and the command line show: read models, and the reader that answers them from the store.

Timestamps are wall time. Usage is on the scale that people are shown (multiplied by the time scale); an incident is as
it is stored, in wall seconds and joules, and is multiplied by `Status.time_scale` where it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dutycycle_alerter.fleet_now import FleetAmounts
from dutycycle_alerter.incidents.expectations import Covered, Expectation, Scope
from dutycycle_alerter.incidents.model import Event, Incident, Severity, State
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.reports.model import Reports
from dutycycle_alerter.usage import UserUsage


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """Which incidents to list; None or empty means any. `text` is looked for in subject, user, account and cause."""

    states: frozenset[State] = frozenset()
    rule: str = ""
    severity: Severity | None = None
    user: str = ""
    account: str = ""
    scheduler: str = ""
    node: str = ""
    text: str = ""
    resolved_after: float | None = None
    """Of those that are resolved, only such as were so after this time."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An incident that is not resolved, in few words. `about` is `job`, `gpu` or `node`; `nodes` are its nodes, `gpu`
    the index of its first GPU, `cause` the first of its likely causes, empty where there is none.
    """

    id: int
    subject: str
    about: str
    rule: str
    severity: str
    state: str
    opened_at: float
    wasted: float
    cluster: str
    scheduler: str
    user: str
    account: str
    partition: str
    namespace: str
    nodes: tuple[str, ...]
    gpu: str
    cause: str


@dataclass(frozen=True, slots=True)
class GpuNow:
    """One GPU at its last scrape. Ratios 0..1; None is not measured. `workloads` is (workload, user, share) of each
    owner. `utilization` is the mean of the last minute before that scrape: a single reading of a job that computes
    every other second shows either 100 % or 0.

    `stale` is set where the exporter has not answered for three scrape intervals: then every reading is None.
    """

    gpu: Gpu
    scraped_at: float
    stale: bool
    utilization: float | None
    memory_used: float | None
    memory_total: float | None
    power: float | None
    power_limit: float | None
    temperature: float | None
    processes: float | None
    last_busy_at: float | None
    workloads: tuple[tuple[str, str, float], ...]
    lost_since: float | None = None
    """When it was last seen, where its node has it on the PCI bus and NVML does not show it."""


@dataclass(frozen=True, slots=True)
class WorkloadOwner:
    """Whom a workload belongs to, as a scheduler says. `kind` is the kind of the object that owns pods; empty for
    Slurm's jobs.
    """

    cluster: str
    workload: str
    user: str
    account: str
    job: str
    kind: str


@dataclass(frozen=True, slots=True)
class Point:
    """Mean utilization 0..1 over the interval that ends at `t`; None where it was not measured."""

    t: float
    utilization: float | None


@dataclass(frozen=True, slots=True)
class GpuSeries:
    """One GPU's utilization within one job."""

    gpu: Gpu
    points: tuple[Point, ...]


def drawn_first(mean: float | None, *, concerned: bool = False) -> tuple[bool, float]:
    """In which order a job's GPUs are chosen where there is room for some: those that an incident concerns, then the
    least used; last those of which nothing was measured (a mean of None).
    """
    return not concerned, math.inf if mean is None else mean


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """One source of a pass (an exporter, Prometheus, Slurm): `error` is empty while it answers.

    `note` is what else there is to say of it, also while it answers: empty where there is nothing.
    """

    url: str
    node: str
    last_success: float | None
    error: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class NotEvaluable:
    """A rule that cannot be judged for some jobs, and why (never guessed)."""

    rule: str
    reason: str
    jobs: int


@dataclass(frozen=True, slots=True)
class Evaluating:
    """Which of the alerters on this database evaluates, or did last. `expires_at` is by the database's clock."""

    replica: str
    epoch: int
    expires_at: float


@dataclass(frozen=True, slots=True)
class Standing:
    """What an alerter knows of its own part. `shared`: others may work on the same database.

    `epoch` is that of the lease as last seen, None before; `age` the seconds since this alerter last renewed it, None
    while it does not evaluate; `lost` how many terms ended without its wish; `left` in how many former terms something
    runs that has not ended.
    """

    replica: str
    shared: bool
    leads: bool
    epoch: int | None
    age: float | None
    lost: int
    left: int = 0


@dataclass(frozen=True, slots=True)
class WatchCounts:
    """What happened on a watch of a scheduler since its start.

    `failures` are by reason; `relists` are complete lists after the first, `malformed` the objects that could not be
    read. `silent` is for how many seconds the server was not heard (None where it never was), `waiting` how many
    workloads' owners are still to be found.
    """

    events: int = 0
    relists: int = 0
    malformed: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    silent: float | None = None
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class OutboxDepth:
    """How many notices wait for a receiver, also in messages that could not be delivered yet, and when the first of
    them was or is due (wall time). `error` is what the last attempt at one of these messages said, empty where none
    failed.
    """

    notices: int
    due_at: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """What became of a receiver's messages since evaluation began here: delivered, to be tried again, given up.

    `failing_since` is when the first of the attempts failed that failed without one that succeeded after them (wall
    time; None where the last one succeeded), `error` what the last of them said.
    """

    sent: int = 0
    retried: int = 0
    failed: int = 0
    failing_since: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """How the alerter itself is doing.

    `first_verdict_at` is set while no verdict was possible yet ("observing, first verdict at hh:mm"). `replay` is true
    while any exporter plays a recording: every page and line then says REPLAY. `notices` are the policies' own:
    expired, maintenance, jobs left out. `lists_gpus` is false where the source tells of no GPU by itself, as
    Prometheus does not: then there is no list of GPUs, and never will be.
    """

    now: float
    time_scale: float
    replay: bool
    last_pass: float | None
    first_verdict_at: float | None
    jobs_judged: int
    targets: tuple[TargetStatus, ...]
    not_evaluable: tuple[NotEvaluable, ...]
    notices: tuple[str, ...] = ()
    evaluating: Evaluating | None = None
    lists_gpus: bool = True


class Reader(Reports, Protocol):
    """Everything that is shown, read from the store; safe to call from several threads and processes."""

    def incidents(self, wanted: IncidentFilter, *, limit: int = 100, offset: int = 0) -> tuple[Sequence[Incident], int]:
        """The page of incidents, newest first (active before resolved), and how many match in all."""
        ...

    def active_counts(self) -> Mapping[tuple[str, Severity, State], int]:
        """How many incidents are not resolved, by rule, severity and state; those of which there are none left out."""
        ...

    def incident(self, incident_id: int) -> Incident | None:
        """One incident, or None."""
        ...

    def events(self, incident_id: int) -> Sequence[Event]:
        """The incident's history, oldest first."""
        ...

    def series(self, incident: Incident, *, until: float, most: int | None = None) -> Sequence[GpuSeries]:
        """Utilization of each GPU of the incident's job, from somewhat before it started to its end (or `until`). Of
        more than `most` GPUs only as many have points, those of `drawn_first`.
        """
        ...

    def expectations(self, *, current: bool = True, user: str | None = None) -> Sequence[Expectation]:
        """What people marked as intended: what counts now, ending first; or all that is remembered, newest first. Of
        one user only what is of them, or of a job that an incident of theirs is about.
        """
        ...

    def muted(self, receiver: str, user: str) -> bool:
        """Whether a user wants no more of what a receiver sends to users."""
        ...

    def users(self, *, since: float, until: float) -> Sequence[UserUsage]:
        """Each user's use over a range, most wasted GPU-seconds first."""
        ...

    def fleet(self, *, since: float, until: float) -> Sequence[FleetAmounts]:
        """GPU-seconds of the fleet by cluster and model over a range; those of the queue without a model."""
        ...

    def gpus(self) -> Sequence[GpuNow]:
        """Every GPU, by node and index."""
        ...

    def status(self) -> Status:
        """The alerter's own state, as of its last pass."""
        ...


class Actions(Protocol):
    """What people do. What is done to an incident is an event, and raises `IncidentNotFoundError` or
    `TransitionError`.
    """

    def acknowledge(self, incident_id: int, *, actor: str, note: str = "") -> Incident:
        """Somebody takes care of it."""
        ...

    def snooze(self, incident_id: int, *, until: float, actor: str, note: str = "") -> Incident:
        """Quiet until a wall time; then open again if it still holds."""
        ...

    def resolve(self, incident_id: int, *, actor: str, note: str = "") -> Incident:
        """Closed by a person; does not open again until the condition has cleared once."""
        ...

    def intend(
        self, incident_id: int, *, actor: str, reason: str, scope: Scope, until: float, covered: Covered = Covered.OPEN
    ) -> Incident:
        """It was intended, of that job or of all jobs of its user, until a wall time: resolved, and it does not open
        again before. `covered` tells of which rules. Of a resolved one it may be said too. Also raises
        ExpectationError: reason, end or scope are not allowed.
        """
        ...

    def withdraw(self, expectation_id: int, *, actor: str) -> Expectation:
        """What was said counts no longer. Raises ExpectationNotFoundError, and TransitionError where it is over."""
        ...

    def mute(self, receiver: str, user: str) -> None:
        """The user wants no more of what a receiver sends to users; harmless when said twice."""
        ...

    def unmute(self, receiver: str, user: str) -> None:
        """The user wants it again; harmless where they never said otherwise."""
        ...
