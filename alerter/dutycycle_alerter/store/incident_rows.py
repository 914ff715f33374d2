"""An incident and its events as the rows that the store has of them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dutycycle_alerter.incidents.model import (
    Cause,
    Diagnosis,
    Event,
    EventKind,
    Incident,
    OpenRule,
    Resolution,
    Severity,
    State,
)
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.settings.policies import Attention
from dutycycle_alerter.store.schema import incident

_GPU = tuple(field.name for field in fields(Gpu))
_DIAGNOSIS = tuple(field.name for field in fields(Diagnosis))


def from_row(row: Any) -> Incident:
    """An incident as its row says."""
    diagnosis = row.diagnosis
    return Incident(
        id=row.id,
        subject=row.subject,
        kind=row.kind,
        rule=row.rule,
        severity=Severity(row.severity),
        state=State(row.state),
        started_at=row.started_at,
        opened_at=row.opened_at,
        updated_at=row.updated_at,
        known_at=row.known_at,
        resolved_at=row.resolved_at,
        resolution=Resolution(row.resolution) if row.resolution else None,
        snoozed_until=row.snoozed_until,
        actor=row.actor,
        reopened=row.reopened,
        wasted=row.wasted,
        energy=row.energy,
        waste_by_gpu=dict(row.waste_by_gpu or {}),
        job_wasted=row.wasted if row.job_wasted is None else row.job_wasted,
        cluster=row.cluster,
        scheduler=row.scheduler,
        user=row.user,
        account=row.account,
        partition=row.partition,
        namespace=row.namespace,
        job_gpus=row.job_gpus,
        gpus=tuple(Gpu(**gpu) for gpu in row.gpus),
        workloads=tuple(row.workloads),
        rules=tuple(to_rule(r) for r in row.rules),
        figures=dict(row.figures),
        diagnosis=Diagnosis(
            causes=tuple(Cause(cause) for cause in diagnosis["causes"]),
            evidence=tuple(diagnosis["evidence"]),
            advice=tuple(diagnosis["advice"]),
            tell_apart=diagnosis["tell_apart"],
            commands=tuple(diagnosis["commands"]),
            known=tuple(diagnosis.get("known", ())),
            own_steps=tuple((Cause(cause), step) for cause, step in diagnosis.get("own_steps", ())),
        ),
    )


def to_rule(stored: dict[str, Any]) -> OpenRule:
    """An open rule as an incident's row has it."""
    told = stored.get("told")
    severity = Severity(stored["severity"])
    attention = None if told is None else Attention(told)
    return OpenRule(
        rule=stored["rule"],
        since=stored["since"],
        severity=severity,
        told=attention,
        silent=stored.get("silent", False),
        # Rules of a store before 0010 have no start.
        started_at=stored.get("started_at", stored["since"]),
        gpus=tuple(Gpu(**gpu) for gpu in stored.get("gpus", ())),
        wasted=dict(stored.get("wasted", {})),
        energy=stored.get("energy", 0.0),
    )


def _from_rule(rule: OpenRule) -> dict[str, Any]:
    stored: dict[str, Any] = {"rule": rule.rule, "since": rule.since, "severity": rule.severity.value}
    if rule.told is not None:
        stored["told"] = rule.told.value
    if rule.silent:
        stored["silent"] = True
    gpus = [_from_gpu(gpu) for gpu in rule.gpus]
    return stored | {"started_at": rule.started_at, "gpus": gpus, "wasted": dict(rule.wasted), "energy": rule.energy}


def _from_gpu(gpu: Gpu) -> dict[str, Any]:
    return {name: getattr(gpu, name) for name in _GPU}


def to_row(item: Incident) -> dict[str, Any]:
    """Every column but the number."""
    row = {name: getattr(item, name) for name in incident.c.keys() if hasattr(item, name)}  # noqa: SIM118
    del row["id"]
    for name in ("severity", "state", "resolution"):
        row[name] = None if row[name] is None else row[name].value
    return {
        **row,
        "gpus": [_from_gpu(gpu) for gpu in item.gpus],
        "workloads": list(item.workloads),
        "rules": [_from_rule(rule) for rule in item.rules],
        "diagnosis": {
            **{name: getattr(item.diagnosis, name) for name in _DIAGNOSIS},
            "causes": [cause.value for cause in item.diagnosis.causes],
            "own_steps": [[cause.value, step] for cause, step in item.diagnosis.own_steps],
        },
        "nodes": " " + " ".join(dict.fromkeys(gpu.node for gpu in item.gpus)) + " ",
        "causes": item.diagnosis.summary,
    }


def event_to_row(incident_id: int, item: Event) -> dict[str, Any]:
    """Every column but the number."""
    return {
        "incident_id": incident_id,
        "at": item.at,
        "kind": item.kind.value,
        "actor": item.actor,
        "text": item.text,
        "data": item.data,
    }


def event_from_row(row: Any) -> Event:
    """An event as its row says."""
    return Event(at=row.at, kind=EventKind(row.kind), text=row.text, actor=row.actor, data=dict(row.data))
