"""How an incident of a GPU or a node lives: pure transitions from one verdict to the next state.

    open -> acknowledged | snoozed (until) -> resolved (reason) -> reopened

A subject has at most one active incident of each class; its class is the rule. It is the operators', and does not end
with a job. Nothing here reads a clock or a store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dutycycle_alerter.incidents.actions import snooze_ended
from dutycycle_alerter.incidents.model import (
    Diagnosis,
    Event,
    EventKind,
    Incident,
    OpenRule,
    Resolution,
    Severity,
    State,
    Step,
)
from dutycycle_alerter.incidents.unknown import Pauses, unknown_for
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.rules.device_fault import is_news
from dutycycle_alerter.rules.device_throttled import heat_is_over
from dutycycle_alerter.rules.verdict import Outcome, Verdict
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.settings import Judging

_STEPS_OF_KNOWING = 720
"""`known_at` moves this often within `lost_after` (every two minutes of a day): a row need not change at every pass."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What an incident is about: its id, the GPUs that stand for it, and how many GPUs its node has (1 for a GPU)."""

    id: str
    gpus: tuple[Gpu, ...]
    whole: int = 1


def gpu_subject(gpu: Gpu) -> Subject:
    """A GPU, or a MIG instance."""
    parts = ("gpu", gpu.node, gpu.uuid or gpu.index, gpu.mig)
    return Subject("/".join(part for part in parts if part), (gpu,))


def node_subject(node: str, lost: tuple[Gpu, ...] = (), whole: int = 0) -> Subject:
    """A node that should have `whole` GPUs; `lost` are those that are known to be missing."""
    return Subject(f"node/{node}", lost or (Gpu(node, ""),), whole)


def advance_device(
    incident: Incident | None,
    subject: Subject,
    verdict: Verdict,
    diagnose: Callable[[], Diagnosis],
    settings: Judging,
    *,
    now: float,
    pauses: Pauses = (),
    time_scale: float = 1.0,
) -> Step:
    """Fold one verdict into the subject's latest incident of the rule's class (active or resolved; None if it never had
    one). Judging the same evidence twice changes nothing the second time. In `pauses` nobody looked.

    What a person resolved stays resolved until the condition has cleared once, or until something new is reported.
    """
    if incident is not None and incident.rules and heat_is_over(verdict, incident.severity, settings):
        verdict = replace(verdict, outcome=Outcome.CLEAR)
    if incident is not None and incident.state.active:
        return _continue(incident, subject, verdict, diagnose, settings, now, pauses, time_scale)
    if verdict.outcome is Outcome.FIRING:
        return _begin(incident, subject, verdict, diagnose, settings, now)
    if incident is not None and incident.rules and verdict.outcome.closes:
        return Step(replace(incident, rules=(), updated_at=now))
    return Step(incident)


def _begin(
    resolved: Incident | None,
    subject: Subject,
    verdict: Verdict,
    diagnose: Callable[[], Diagnosis],
    settings: Judging,
    now: float,
) -> Step:
    rules = (OpenRule(verdict.rule, now, verdict.severity),)
    if resolved is not None and resolved.resolved_at is not None:
        closed_on_it = resolved.resolution is Resolution.OPERATOR and resolved.rules
        if closed_on_it and not is_news(verdict.figures, resolved.figures, resolved.resolved_at):
            return Step(resolved)
        cleared = resolved.resolution is Resolution.CLEARED and now - resolved.resolved_at <= settings.reopen_within
        if cleared and not _only_information(verdict, resolved):
            again = replace(
                resolved,
                state=State.OPEN,
                rules=rules,
                severity=max(resolved.severity, verdict.severity, key=lambda severity: severity.rank),
                diagnosis=diagnose(),
                gpus=subject.gpus,
                figures=dict(verdict.figures),
                resolved_at=None,
                resolution=None,
                reopened=resolved.reopened + 1,
                updated_at=now,
                known_at=now,
            )
            back = _event(now, EventKind.REOPENED, "the condition holds again", rule=verdict.rule)
            return Step(again, (back, *_worse(resolved.severity, verdict, now)))
    diagnosis = diagnose()
    opened = Incident(
        subject=subject.id,
        kind=verdict.rule,
        rule=verdict.rule,
        severity=verdict.severity,
        state=State.OPEN,
        started_at=min(now, verdict.figures.get("xid_at", now - verdict.window)),
        opened_at=now,
        updated_at=now,
        known_at=now,
        diagnosis=diagnosis,
        gpus=subject.gpus,
        rules=rules,
        job_gpus=subject.whole,
        figures=dict(verdict.figures),
    )
    event = _event(now, EventKind.OPENED, diagnosis.evidence[0], rule=verdict.rule, severity=verdict.severity.value)
    return Step(opened, (event,))


def _continue(
    incident: Incident,
    subject: Subject,
    verdict: Verdict,
    diagnose: Callable[[], Diagnosis],
    settings: Judging,
    now: float,
    pauses: Pauses,
    time_scale: float,
) -> Step:
    events: list[Event] = []
    if incident.snoozed_until is not None and now >= incident.snoozed_until:
        incident = replace(incident, state=State.OPEN, snoozed_until=None, updated_at=now)
        text = snooze_ended(holds=verdict.outcome is Outcome.FIRING)
        events.append(_event(now, EventKind.SNOOZE_EXPIRED, text))
    unknown = unknown_for(incident.known_at, now, pauses)
    if verdict.outcome.informed:
        if now - incident.known_at >= settings.lost_after / _STEPS_OF_KNOWING:
            incident = replace(incident, known_at=now, updated_at=now)
    elif unknown >= settings.lost_after and not verdict.outcome.closes:
        text = f"nothing known for {format_duration(unknown * time_scale)}"
        return _resolved(incident, Resolution.LOST, text, events, now)
    if verdict.outcome.closes:
        text = "the condition cleared" if verdict.outcome is Outcome.CLEAR else f"no longer judged: {verdict.reason}"
        return _resolved(incident, Resolution.CLEARED, text, events, now)
    if verdict.outcome is Outcome.FIRING:
        step = _go_on(incident, subject, verdict, diagnose, now)
        return Step(step.incident, (*events, *step.events))
    return Step(incident, tuple(events))


def _go_on(
    incident: Incident, subject: Subject, verdict: Verdict, diagnose: Callable[[], Diagnosis], now: float
) -> Step:
    """An active incident whose condition holds. Why it is worse, and what was reported since, is told with it."""
    worse = _worse(incident.severity, verdict, now)
    # A window's figures move all the time; those of a fault only when something is reported.
    reported = not verdict.window and incident.figures != dict(verdict.figures)
    if not worse and not reported:
        return Step(incident)
    diagnosis = diagnose()
    changed = replace(incident, figures=dict(verdict.figures), diagnosis=diagnosis, gpus=subject.gpus, updated_at=now)
    if worse:
        rules = tuple(replace(rule, severity=verdict.severity) for rule in incident.rules)
        changed = replace(changed, severity=verdict.severity, rules=rules)
    # A driver may report the same XID every few seconds for hours: only its first report is news.
    news = reported and {**incident.figures, "xid_at": 0.0} != {**verdict.figures, "xid_at": 0.0}
    found = (_event(now, EventKind.CAUSE_FOUND, diagnosis.evidence[0]),) if news else ()
    return Step(changed, (*worse, *found))


def _only_information(verdict: Verdict, resolved: Incident) -> bool:
    """What is only worth knowing is another condition than what a warning was about, and no return of it."""
    return verdict.severity is Severity.INFO and resolved.severity is not Severity.INFO


def _worse(before: Severity, verdict: Verdict, now: float) -> tuple[Event, ...]:
    """What is told of a severity that rose; it does not fall within an incident, also not while that is resolved."""
    if verdict.severity.rank <= before.rank:
        return ()
    text = f"{before} became {verdict.severity}"
    return (_event(now, EventKind.SEVERITY_CHANGED, text, severity=verdict.severity.value),)


def _resolved(incident: Incident, resolution: Resolution, text: str, events: list[Event], now: float) -> Step:
    changed = replace(
        incident,
        state=State.RESOLVED,
        resolution=resolution,
        resolved_at=now,
        updated_at=now,
        snoozed_until=None,
        rules=(),
    )
    return Step(changed, (*events, _event(now, EventKind.RESOLVED, text, resolution=resolution.value)))


def _event(at: float, kind: EventKind, text: str, **data: object) -> Event:
    return Event(at=at, kind=kind, text=text, data=dict(data))
