"""The JSON of the API and of the commands' `--json`: typed shapes, here of incidents, expectations and errors.

`answers` fills them; those of users, GPUs, the fleet and the alerter itself are in `wire_present`. Times are RFC 3339
in UTC; units are in the names; null is "not known", never zero. Durations, GPU-hours and energy are on the scale that
people are shown (multiplied by the time scale). Every answer says whether it stems from a replay.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from dutycycle_alerter.incidents.expectations import Scope
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
    """One is a verdict; several are a hesitation."""
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
    """What the GPUs concerned wasted since the condition began."""
    job_wasted_gpu_hours: float
    """What all GPUs of the job wasted while the incident was open."""
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
    incomplete: str | None
    """Why jobs and GPUs may be missing here: no evaluation yet, or a source that does not answer. Null where nothing
    suggests that any is missing.
    """
    incidents: list[IncidentShape]


class IncidentAnswer(Shape):
    """One incident and its history, oldest first."""

    replay: bool
    incident: IncidentShape
    events: list[EventShape]


class ExpectationShape(Shape):
    """What somebody said was intended. Until it expires or is withdrawn, the rules do not judge what it covers."""

    id: int
    scope: Scope
    """One job, or all jobs of a user."""
    cluster: Text
    subject: Text
    """The job's id, or the user."""
    rules: list[str]
    reason: Text
    actor: Text
    at: Moment
    expires_at: Moment
    incident_id: int | None
    """Of which it was said; null once that is forgotten."""
    withdrawn_at: Moment | None
    withdrawn_by: Text


class ExpectationsAnswer(Shape):
    """A page of expectations."""

    replay: bool
    total: int
    """How many there are in all."""
    offset: int
    expectations: list[ExpectationShape]


class ExpectationAnswer(Shape):
    """One expectation."""

    replay: bool
    expectation: ExpectationShape


class ErrorShape(Shape):
    """What went wrong."""

    code: int
    """The status of the answer."""
    title: str
    message: Text
    """What to do, where there is something."""


class ErrorAnswer(Shape):
    """Every answer that is not a success."""

    error: ErrorShape
