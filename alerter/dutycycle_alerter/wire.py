"""The JSON of the API and of the commands' `--json`: one set of typed shapes (`answers` fills them).

Times are RFC 3339 in UTC; units are in the names; null is "not known", never zero. Durations, GPU-hours and energy are
on the scale that people are shown (multiplied by the time scale). Every answer says whether it stems from a replay.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from dutycycle_alerter.incidents.model import Cause, EventKind, Resolution, Severity, State
from dutycycle_alerter.settings.policies import Attention


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _encodable(value: object) -> object:
    # A lone surrogate (from a name that was not UTF-8) has no place in JSON.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


Moment = Annotated[datetime, PlainSerializer(_rfc3339, when_used="json")]
Text = Annotated[str, BeforeValidator(_encodable)]


class Shape(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class GpuShape(Shape):
    """Which GPU, or MIG instance."""

    node: Text
    index: Text
    """NVML's index on the node."""
    uuid: Text
    """Of the physical GPU."""
    mig: Text
    """The MIG instance's UUID, empty for a whole GPU."""
    model: Text


class HeldGpuShape(GpuShape):
    """A GPU of an incident."""

    workload: Text
    """The pod that held it, empty where the job is not made of pods."""


class RuleShape(Shape):
    """A rule that is open within an incident."""

    rule: str
    since: Moment
    severity: Severity
    user_severity: Attention
    """What the job's user is to hear of it."""


class DiagnosisShape(Shape):
    """Why, and what to do."""

    causes: list[Cause]
    """One is a verdict; two or three are a hesitation."""
    tell_apart: Text
    evidence: list[Text]
    advice: list[Text]
    commands: list[Text]


class EventShape(Shape):
    """One entry of an incident's history."""

    at: Moment
    kind: EventKind
    text: Text
    actor: Text
    """Empty where the alerter acted by itself."""
    data: dict[str, Any]


class IncidentShape(Shape):
    """One problem of a job, a GPU or a node, with its present state."""

    id: int
    kind: str
    title: Text
    subject: Text
    rule: str
    rules: list[RuleShape]
    severity: Severity
    state: State
    started_at: Moment
    """When the condition began."""
    opened_at: Moment
    """When it was noticed."""
    updated_at: Moment
    resolved_at: Moment | None
    resolution: Resolution | None
    snoozed_until: Moment | None
    actor: Text
    reopened: int
    cluster: Text
    scheduler: Text
    user: Text
    account: Text
    partition: Text
    namespace: Text
    gpus: list[HeldGpuShape]
    """The GPUs concerned."""
    job_gpus: int
    """How many GPUs the job has."""
    wasted_gpu_hours: float
    energy_kwh: float
    figures: dict[str, float]
    """The numbers that decided, ratios 0..1."""
    diagnosis: DiagnosisShape


class IncidentsAnswer(Shape):
    """A page of incidents."""

    replay: bool
    total: int
    """How many match in all."""
    offset: int
    incidents: list[IncidentShape]


class IncidentAnswer(Shape):
    """One incident and its history, oldest first."""

    replay: bool
    incident: IncidentShape
    events: list[EventShape]


class UserShape(Shape):
    """One user over the range."""

    user: Text
    jobs: int
    incidents: int
    allocated_gpu_hours: float
    observed_gpu_hours: float
    busy_gpu_hours: float
    wasted_gpu_hours: float
    mean_utilization_percent: float | None
    energy_kwh: float | None


class UsersAnswer(Shape):
    """Users over a range, most wasted GPU-hours first."""

    replay: bool
    since: Moment
    until: Moment
    users: list[UserShape]
    users_under_15: int
    users_histogram: list[int]
    """Users per 5-point bin of mean utilization, 20 bins."""


class OwnerShape(Shape):
    """A workload that holds the GPU."""

    workload: Text
    user: Text
    share: float


class GpuNowShape(GpuShape):
    """One GPU at its last scrape."""

    scraped_at: Moment
    stale: bool
    """Its exporter does not answer: every reading is null."""
    utilization_ratio: float | None
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    power_watts: float | None
    power_limit_watts: float | None
    temperature_celsius: float | None
    processes: float | None
    last_busy_at: Moment | None
    workloads: list[OwnerShape]


class GpusAnswer(Shape):
    """Every GPU, by node and index."""

    replay: bool
    gpus: list[GpuNowShape]


class FleetShape(Shape):
    """GPU-hours of one model of GPU. The first five are disjoint."""

    cluster: Text
    model: Text
    """Empty for the scheduler's queue, whose requests name no model."""
    allocated_gpu_hours: float
    unallocated_gpu_hours: float
    drained_gpu_hours: float
    """Not allocated, on nodes that take no jobs."""
    down_gpu_hours: float
    """Not allocated, on nodes that cannot run any."""
    unknown_gpu_hours: float
    """Their exporters did not show them."""
    pending_gpu_hours: float
    """For which requests waited in the scheduler's queue."""
    held_gpu_hours: float
    """The part of them that waited for something else than GPUs."""


class FleetAnswer(Shape):
    """The fleet over a range, beside what waited for it."""

    replay: bool
    since: Moment
    until: Moment
    fleet: list[FleetShape]


class TargetShape(Shape):
    """One source: an exporter, Prometheus, Slurm."""

    url: Text
    node: Text
    last_success: Moment | None
    error: Text
    """Empty while it answers."""
    note: Text
    """What else there is to say of it, also while it answers; empty where there is nothing."""


class NotEvaluableShape(Shape):
    """A rule that cannot be judged for some jobs, and why."""

    rule: str
    reason: Text
    jobs: int


class EvaluatingShape(Shape):
    """Which of the alerters on one database evaluates, or did last."""

    replica: Text
    epoch: int
    """One more at each term."""
    expires_at: Moment
    """Until when, unless it is renewed."""


class StatusAnswer(Shape):
    """How the alerter itself is doing."""

    replay: bool
    now: Moment
    time_scale: float
    last_pass: Moment | None
    first_verdict_at: Moment | None
    """Set while no verdict was possible yet."""
    jobs_judged: int
    targets: list[TargetShape]
    not_evaluable: list[NotEvaluableShape]
    notices: list[Text]
    """What the policies have to say: expired or about to, maintenance, jobs left out."""
    evaluating: EvaluatingShape | None
    """None before any alerter did."""
