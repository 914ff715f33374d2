"""From the read models to the JSON shapes of `wire`: units, scale and times are brought to the wire's here only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from dutycycle_alerter.fleet import gpus_incomplete, incomplete
from dutycycle_alerter.fleet_now import FleetAmounts
from dutycycle_alerter.headline import headline
from dutycycle_alerter.incidents.audience import owner_hears
from dutycycle_alerter.incidents.expectations import Expectation
from dutycycle_alerter.incidents.model import Event, Incident
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.usage import UserUsage, hours_histogram, median_percent, users_histogram, users_under
from dutycycle_alerter.views import Evaluating, GpuNow, Status
from dutycycle_alerter.wire import (
    DiagnosisShape,
    EventShape,
    ExpectationAnswer,
    ExpectationsAnswer,
    ExpectationShape,
    HeldGpuShape,
    IncidentAnswer,
    IncidentsAnswer,
    IncidentShape,
    RuleShape,
)
from dutycycle_alerter.wire_present import (
    EvaluatingShape,
    FleetAnswer,
    FleetShape,
    GpuNowShape,
    GpusAnswer,
    NotEvaluableShape,
    OwnerShape,
    StatusAnswer,
    TargetShape,
    UsersAnswer,
    UserShape,
)


def incident_shape(incident: Incident, *, time_scale: float) -> IncidentShape:
    """One incident; its wall seconds and joules are brought to the shown scale here."""
    diagnosis = incident.diagnosis
    return IncidentShape(
        id=incident.id,
        kind=incident.kind,
        title=headline(incident),
        subject=incident.subject,
        rule=incident.rule,
        rules=[
            RuleShape(rule=r.rule, since=_at(r.since), severity=r.severity, user_severity=owner_hears(r))
            for r in incident.rules
        ],
        severity=incident.severity,
        state=incident.state,
        started_at=_at(incident.started_at),
        opened_at=_at(incident.opened_at),
        updated_at=_at(incident.updated_at),
        resolved_at=_maybe(incident.resolved_at),
        resolution=incident.resolution,
        snoozed_until=_maybe(incident.snoozed_until),
        actor=incident.actor,
        reopened=incident.reopened,
        cluster=incident.cluster,
        scheduler=incident.scheduler,
        user=incident.user,
        account=incident.account,
        partition=incident.partition,
        namespace=incident.namespace,
        gpus=[HeldGpuShape(**_gpu(gpu), workload=gpu.workload) for gpu in incident.gpus],
        job_gpus=incident.job_gpus,
        wasted_gpu_hours=_hours(incident.wasted * time_scale),
        job_wasted_gpu_hours=_hours(incident.job_wasted * time_scale),
        energy_kwh=_kwh(incident.energy * time_scale),
        figures=incident.figures,
        diagnosis=DiagnosisShape(
            causes=list(diagnosis.causes),
            tell_apart=diagnosis.tell_apart,
            evidence=list(diagnosis.evidence),
            advice=list(diagnosis.advice),
            commands=list(diagnosis.commands),
        ),
    )


def incidents_answer(incidents: Sequence[Incident], total: int, offset: int, status: Status) -> IncidentsAnswer:
    """A page of incidents, of `total` that match."""
    shapes = [incident_shape(incident, time_scale=status.time_scale) for incident in incidents]
    return IncidentsAnswer(
        replay=status.replay, total=total, offset=offset, incomplete=incomplete(status) or None, incidents=shapes
    )


def incident_answer(incident: Incident, events: Sequence[Event], status: Status) -> IncidentAnswer:
    """One incident with its history."""
    return IncidentAnswer(
        replay=status.replay,
        incident=incident_shape(incident, time_scale=status.time_scale),
        events=[
            EventShape(at=_at(event.at), kind=event.kind, text=event.text, actor=event.actor, data=event.data)
            for event in events
        ],
    )


def expectations_answer(items: Sequence[Expectation], total: int, offset: int, status: Status) -> ExpectationsAnswer:
    """A page of expectations, of `total`."""
    return ExpectationsAnswer(
        replay=status.replay, total=total, offset=offset, expectations=[_expectation(item) for item in items]
    )


def expectation_answer(item: Expectation, status: Status) -> ExpectationAnswer:
    """One expectation."""
    return ExpectationAnswer(replay=status.replay, expectation=_expectation(item))


EVERYTHING = slice(None)


def users_answer(
    users: Sequence[UserUsage], *, since: float, until: float, status: Status, part: slice = EVERYTHING
) -> UsersAnswer:
    """Users over the wall times `since` to `until`; `part` of them are listed, all are counted."""
    median = median_percent(users)
    return UsersAnswer(
        replay=status.replay,
        total=len(users),
        offset=part.start or 0,
        since=_at(since),
        until=_at(until),
        incomplete=incomplete(status) or None,
        users=[_user(user) for user in users[part]],
        users_under_15=users_under(users),
        median_utilization_percent=None if median is None else round(median, 3),
        users_histogram=users_histogram(users),
        gpu_hours_histogram=[_hours(seconds) for seconds in hours_histogram(users)],
    )


def fleet_answer(
    fleet: Sequence[FleetAmounts], *, since: float, until: float, status: Status, part: slice = EVERYTHING
) -> FleetAnswer:
    """The fleet over the wall times `since` to `until`; `part` of it is listed."""
    shapes = [
        FleetShape(
            cluster=item.cluster,
            model=item.model,
            allocated_gpu_hours=_hours(item.allocated),
            unallocated_gpu_hours=_hours(item.unallocated),
            drained_gpu_hours=_hours(item.drained),
            down_gpu_hours=_hours(item.down),
            unknown_gpu_hours=_hours(item.unknown),
            pending_gpu_hours=_hours(item.pending),
            held_gpu_hours=_hours(item.held),
            waited_gpu_hours=None if item.waited is None else _hours(item.waited),
        )
        for item in fleet[part]
    ]
    return FleetAnswer(
        replay=status.replay,
        total=len(fleet),
        offset=part.start or 0,
        since=_at(since),
        until=_at(until),
        fleet=shapes,
    )


def gpus_answer(gpus: Sequence[GpuNow], status: Status, part: slice = EVERYTHING) -> GpusAnswer:
    """A part of the GPUs, as last seen."""
    shapes = [_gpu_now(now) for now in gpus[part]]
    return GpusAnswer(
        replay=status.replay,
        total=len(gpus),
        offset=part.start or 0,
        incomplete=gpus_incomplete(status) or None,
        gpus=shapes,
    )


def status_answer(status: Status) -> StatusAnswer:
    """The alerter's own state."""
    return StatusAnswer(
        replay=status.replay,
        now=_at(status.now),
        time_scale=status.time_scale,
        last_pass=_maybe(status.last_pass),
        first_verdict_at=_maybe(status.first_verdict_at),
        jobs_judged=status.jobs_judged,
        targets=[
            TargetShape(url=t.url, node=t.node, last_success=_maybe(t.last_success), error=t.error, note=t.note)
            for t in status.targets
        ],
        not_evaluable=[NotEvaluableShape(rule=n.rule, reason=n.reason, jobs=n.jobs) for n in status.not_evaluable],
        notices=list(status.notices),
        evaluating=_evaluating(status.evaluating),
    )


def _expectation(item: Expectation) -> ExpectationShape:
    return ExpectationShape(
        id=item.id,
        scope=item.scope,
        cluster=item.cluster,
        subject=item.subject,
        rules=list(item.rules),
        reason=item.reason,
        actor=item.actor,
        at=_at(item.at),
        expires_at=_at(item.expires_at),
        incident_id=item.incident_id,
        withdrawn_at=_maybe(item.withdrawn_at),
        withdrawn_by=item.withdrawn_by,
    )


def _user(user: UserUsage) -> UserShape:
    return UserShape(
        user=user.user,
        jobs=user.jobs,
        incidents=user.incidents,
        allocated_gpu_hours=_hours(user.allocated),
        observed_gpu_hours=_hours(user.observed),
        busy_gpu_hours=_hours(user.busy),
        wasted_gpu_hours=_hours(user.wasted),
        mean_utilization_percent=None if user.mean_percent is None else round(user.mean_percent, 3),
        energy_kwh=None if user.energy is None else _kwh(user.energy),
    )


def _gpu(gpu: Gpu) -> dict[str, str]:
    return {"node": gpu.node, "index": gpu.index, "uuid": gpu.uuid, "mig": gpu.mig, "model": gpu.model}


def _gpu_now(now: GpuNow) -> GpuNowShape:
    return GpuNowShape(
        **_gpu(now.gpu),
        scraped_at=_at(now.scraped_at),
        stale=now.stale,
        utilization_ratio=now.utilization,
        memory_used_bytes=now.memory_used,
        memory_total_bytes=now.memory_total,
        power_watts=now.power,
        power_limit_watts=now.power_limit,
        temperature_celsius=now.temperature,
        processes=now.processes,
        last_busy_at=_maybe(now.last_busy_at),
        lost_since=_maybe(now.lost_since),
        workloads=[OwnerShape(workload=w, user=user, share=share) for w, user, share in now.workloads],
    )


def _at(timestamp: float) -> datetime:
    return datetime.fromtimestamp(timestamp, UTC)


def _evaluating(known: Evaluating | None) -> EvaluatingShape | None:
    if known is None:
        return None
    return EvaluatingShape(replica=known.replica, epoch=known.epoch, expires_at=_at(known.expires_at))


def _maybe(timestamp: float | None) -> datetime | None:
    return None if timestamp is None else _at(timestamp)


def _hours(seconds: float) -> float:
    return round(seconds / 3600, 6)


def _kwh(joules: float) -> float:
    return round(joules / 3.6e6, 6)
