"""The data of an incident and of the events that changed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from dutycycle_alerter.model import Gpu
from dutycycle_alerter.settings.policies import Attention


class State(StrEnum):
    """Where an incident is in its life. A reopened incident is open again and has a `reopened` event."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    SNOOZED = "snoozed"
    RESOLVED = "resolved"

    @property
    def active(self) -> bool:
        """Everything but resolved."""
        return self is not State.RESOLVED


class Severity(StrEnum):
    """How bad. Information is reported and never mailed."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for information, 2 for critical."""
        return ("info", "warning", "critical").index(self.value)


class Resolution(StrEnum):
    """Why an incident was resolved."""

    CLEARED = "cleared"
    ENDED = "ended"
    LOST = "lost"
    OPERATOR = "operator"
    EXCLUDED = "excluded"
    INTENDED = "intended"


class Cause(StrEnum):
    """The causes that a finding can name."""

    NO_PROCESS = "no process"
    IDLE_NOTEBOOK = "idle notebook"
    CPU_ONLY = "CPU-only code"
    HOST_WORK = "host work between GPU phases"
    DATA_LOADING = "data loading"
    SMALL_WORK = "small work per step"
    MEMORY_BOUND = "memory-bound"
    COMMUNICATION = "communication or straggler"
    CHECKPOINT = "checkpoint or evaluation pauses"
    HANG = "hang"
    THROTTLING = "throttling"
    OVER_REQUEST = "over-request"
    FAULT = "fault"

    @property
    def label(self) -> str:
        """Its name where people read it; the value is what the API, metrics and the store have."""
        return "idle notebook or process holding memory" if self is Cause.IDLE_NOTEBOOK else self.value


NOTHING_WORKS = frozenset({Cause.NO_PROCESS, Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY, Cause.HOST_WORK, Cause.HANG})
"""Causes for which the GPUs that a finding is about do nothing at all."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a rule fires. One cause is a verdict; several are a hesitation, and `tell_apart` says how to settle it.

    `evidence` are sentences with the figures that picked the cause; `advice` are concrete steps, most useful first;
    `own_steps` are those of them that have the job's own numbers, each with the cause that it is for; `commands` are
    exact command lines: to look, to end it, to profile it. `known` are the names of what was measured of all its GPUs
    and nodes: with less of it the same causes need not be found.
    """

    causes: tuple[Cause, ...]
    evidence: tuple[str, ...]
    advice: tuple[str, ...]
    tell_apart: str = ""
    commands: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    own_steps: tuple[tuple[Cause, str], ...] = ()

    @property
    def summary(self) -> str:
        """The cause, or the causes between which the evidence does not decide."""
        names = [cause.label for cause in self.causes]
        if len(names) == 1:
            return names[0]
        # A name that has an "or" of its own must not run into the others.
        last = ", or" if any(" or " in name for name in names) else " or"
        return ", ".join(names[:-1]) + f"{last} {names[-1]}"


@dataclass(frozen=True, slots=True)
class OpenRule:
    """A rule that is open within an incident: since when it fires, and how severely.

    `told` is what the job's user is to hear of it by a policy of the site; None where none says so. `silent`: by a
    policy operators are not to hear of it. `started_at` is when the condition began, `gpus` are those
    that it is about, `wasted` the GPU-seconds that each of these wasted since then, by `Gpu.key`, and `energy` the
    joules that the whole job drew.
    """

    rule: str
    since: float
    severity: Severity
    told: Attention | None = None
    silent: bool = False
    started_at: float = 0.0
    gpus: tuple[Gpu, ...] = ()
    wasted: Mapping[str, float] = field(default_factory=dict)
    energy: float = 0.0


DEVICE_CLASSES = ("gpu_fault", "leaked_memory", "throttled")
"""Classes of incidents whose subject is a GPU or a node, not a job: the operators'."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One problem of one subject, of one class, with its present state.

    `subject` is a job's id for class `efficiency`. `rule` is the primary rule; `rules` are all that are open, in the
    order of precedence. `started_at` is when the condition began (see `rules.diagnosis.began`), `opened_at`
    when it was noticed. `wasted` is GPU-seconds for which `gpus` were measured and not busy since `started_at`
    (`waste_by_gpu` of each, by `Gpu.key`), `energy` the joules that the whole job drew in that time. All of these are
    the primary rule's. `job_wasted` is what all GPUs of the job wasted while the incident was open. Seconds are wall
    seconds (multiply by the time scale to show them). `workloads` are those that the job is made of, as exporters name
    them; empty where it is one, by its own id. `id` is 0 until stored.
    """

    subject: str
    rule: str
    severity: Severity
    state: State
    started_at: float
    opened_at: float
    updated_at: float
    diagnosis: Diagnosis
    gpus: tuple[Gpu, ...]
    rules: tuple[OpenRule, ...]
    id: int = 0
    kind: str = "efficiency"
    known_at: float = 0.0
    resolved_at: float | None = None
    resolution: Resolution | None = None
    snoozed_until: float | None = None
    actor: str = ""
    reopened: int = 0
    wasted: float = 0.0
    energy: float = 0.0
    waste_by_gpu: Mapping[str, float] = field(default_factory=dict)
    job_wasted: float = 0.0
    cluster: str = ""
    scheduler: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    namespace: str = ""
    job_gpus: int = 0
    workloads: tuple[str, ...] = ()
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def silent(self) -> bool:
        """Whether operators are to hear of none of the rules that are open."""
        return bool(self.rules) and all(rule.silent for rule in self.rules)

    @property
    def interrupted(self) -> bool:
        """Whether the condition was over for a while since `started_at`: its rule went on as the incident reopened."""
        return self.reopened > 0 and self.started_at <= self.opened_at

    @property
    def about(self) -> str:
        """What its subject is: `job`, `gpu` or `node`."""
        if self.kind not in DEVICE_CLASSES:
            return "job"
        return "node" if self.subject.startswith("node/") else "gpu"


def showing(incident: Incident, rules: tuple[OpenRule, ...]) -> Incident:
    """Return the incident with the start, waste and energy of its primary rule; as it is where that left."""
    primary = next((rule for rule in rules if rule.rule == incident.rule and rule.gpus), None)
    if primary is None:
        return incident
    return replace(
        incident,
        started_at=primary.started_at,
        wasted=sum(primary.wasted.values()),
        waste_by_gpu=primary.wasted,
        energy=primary.energy,
    )


class EventKind(StrEnum):
    """What happened to an incident."""

    OPENED = "opened"
    RULE_OPENED = "rule opened"
    RULE_CLEARED = "rule cleared"
    PRIMARY_CHANGED = "primary changed"
    SEVERITY_CHANGED = "severity changed"
    CAUSE_FOUND = "cause found"
    OWNER_CHANGED = "owner changed"
    ACKNOWLEDGED = "acknowledged"
    SNOOZED = "snoozed"
    SNOOZE_EXPIRED = "snooze expired"
    RESOLVED = "resolved"
    REOPENED = "reopened"
    FINAL = "final figures"
    INTENDED = "intended"
    WITHDRAWN = "withdrawn"
    TOLD = "told"
    NOT_TOLD = "not told"


@dataclass(frozen=True, slots=True)
class Event:
    """One append-only entry of an incident's history. `actor` is empty where the alerter acted by itself."""

    at: float
    kind: EventKind
    text: str
    actor: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """What one judgement or action does to an incident; `incident` is None where there is none, before and after."""

    incident: Incident | None
    events: tuple[Event, ...] = ()
