"""The part of a pass that is about GPUs and nodes: judge them, and fold what is found into their incidents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import sqlalchemy as sa

from dutycycle_alerter.fold import Change, Pass, save_steps
from dutycycle_alerter.incidents.device_lifecycle import Subject, advance_device, gpu_subject, node_subject
from dutycycle_alerter.incidents.lifecycle import lose
from dutycycle_alerter.incidents.model import DEVICE_CLASSES, Diagnosis, Incident, Step
from dutycycle_alerter.isolation import Doing, Failures
from dutycycle_alerter.model import Evidence, Gpu, GpuEvidence, NodeEvidence
from dutycycle_alerter.rules import device_fault, device_memory, device_throttled
from dutycycle_alerter.rules.device_diagnosis import diagnose_gpu, diagnose_node
from dutycycle_alerter.rules.verdict import Outcome, Verdict
from dutycycle_alerter.settings import Judging
from dutycycle_alerter.store import incidents
from dutycycle_alerter.store.types import storable_name

_NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class DeviceFindings:
    """What `judge_devices` found: every subject's evidence by its id, and which (subject, class) fire."""

    gpus: Mapping[str, GpuEvidence]
    nodes: Mapping[str, NodeEvidence]
    firing: frozenset[tuple[str, str]]


def judge_devices(evidence: Evidence, settings: Judging, failures: Failures) -> DeviceFindings:
    """Judge every GPU and node; what fails of one is put down in `failures`, else pure."""
    # As the store calls them, whose incidents they are matched with.
    gpus = {storable_name(gpu_subject(item.gpu).id): item for item in evidence.gpus}
    nodes = {storable_name(node_subject(item.node).id): item for item in evidence.nodes}
    firing: set[tuple[str, str]] = set()
    for subject, gpu in gpus.items():
        for rule in DEVICE_CLASSES:
            with failures.of(Doing.JUDGE, subject):
                if _fires(_judge(gpu, rule, settings)):
                    firing.add((subject, rule))
    for subject, node in nodes.items():
        with failures.of(Doing.JUDGE, subject):
            if _fires(device_fault.judge_node_fault(node, settings)):
                firing.add((subject, device_fault.RULE))
    return DeviceFindings(gpus, nodes, frozenset(firing))


def _fires(verdict: Verdict) -> bool:
    return verdict.outcome is Outcome.FIRING


def _judge(item: GpuEvidence, rule: str, settings: Judging, opened_on: Mapping[str, float] = _NOTHING) -> Verdict:
    if rule == device_fault.RULE:
        return device_fault.judge_gpu_fault(item, settings, opened_on)
    if rule == device_memory.RULE:
        return device_memory.judge_leaked_memory(item, settings)
    return device_throttled.judge_throttled(item, settings, opened_on)


def fold_devices(connection: sa.Connection, one: Pass, evidence: Evidence, findings: DeviceFindings) -> None:
    """Every finding into its incident, and what became of incidents whose GPU or node no source shows any more.

    Subjects without an incident that do not fire cost nothing here.
    """
    settings = one.policies.settings
    reopenable = one.now - settings.judging.reopen_within
    latest = incidents.latest_of_classes(connection, DEVICE_CLASSES, resolved_after=reopenable)
    fold = _Fold(one, evidence, findings, latest)
    steps: list[Change] = []
    for subject, kind in sorted(findings.firing | latest.keys()):
        with one.failures.of(Doing.INCIDENT, subject):
            steps += fold.changes(latest.get((subject, kind)), subject, kind)
    save_steps(connection, steps)


class _Fold:
    """The findings of one pass, and what surrounds them."""

    def __init__(
        self,
        one: Pass,
        evidence: Evidence,
        findings: DeviceFindings,
        latest: Mapping[tuple[str, str], Incident],
    ) -> None:
        self._findings = findings
        self._latest = latest
        self._policies = one.policies
        self._settings = one.policies.settings.judging
        self._now = one.now
        self._pauses = one.pauses
        self._time_scale = one.policies.settings.time_scale
        self._schedulers = frozenset(item.job.scheduler for item in evidence.jobs if item.job.scheduler)
        self._on_node: defaultdict[str, list[GpuEvidence]] = defaultdict(list)
        for item in evidence.gpus:
            self._on_node[item.gpu.node].append(item)

    def changes(self, before: Incident | None, subject: str, kind: str) -> list[Change]:
        """What the pass does to the incident, and to what begins anew."""
        step = self._step(None if before is None else self._policies.sustained(before), subject, kind)
        if before is not None and before.rules and step.incident is not None and not step.incident.id:
            # What a person closed is over where something new has opened another.
            return [(before, step), (before, Step(replace(before, rules=(), updated_at=self._now)))]
        return [(before, step)]

    def _step(self, before: Incident | None, subject: str, kind: str) -> Step:
        """Nothing opens on a node under maintenance."""
        gpu, node = self._findings.gpus.get(subject), self._findings.nodes.get(subject)
        active = before is not None and before.state.active
        if kind == device_fault.RULE and not active:
            # A GPU that falls off the bus often reports an XID as well: both are one incident.
            if gpu is not None and self._is_of_node_incident(gpu):
                return Step(before)
            if node is not None and self._is_of_gpu_incidents(node):
                return Step(before)
        if gpu is not None and (active or not self._resting(gpu.gpu.node)):
            return self._gpu(before, gpu, kind)
        if node is not None and (active or not self._resting(node.node)):
            return self._node(before, node)
        if before is not None and gpu is None and node is None:
            return lose(before, self._settings, now=self._now, pauses=self._pauses, time_scale=self._time_scale)
        return Step(before)

    def _is_of_node_incident(self, item: GpuEvidence) -> bool:
        """Whether an open incident of the GPU's node is about this GPU, which is lost."""
        node = self._latest.get((storable_name(node_subject(item.gpu.node).id), device_fault.RULE))
        return not item.visible and node is not None and node.state.active and item.gpu in node.gpus

    def _is_of_gpu_incidents(self, item: NodeEvidence) -> bool:
        """Whether each GPU that the node has lost has an incident of its own."""
        missing = (item.expected or 0.0) - (item.visible or 0.0)
        keys = [(storable_name(gpu_subject(gpu).id), device_fault.RULE) for gpu in self._lost(item.node)]
        own = [key in self._findings.firing or _is_active(self._latest.get(key)) for key in keys]
        return 0 < missing <= sum(own)

    def _lost(self, node: str) -> tuple[Gpu, ...]:
        """The GPUs of a node that were seen before and are not shown now."""
        return tuple(item.gpu for item in self._on_node[node] if not item.visible and not item.gpu.mig)

    def _resting(self, node: str) -> bool:
        return self._policies.calendar.going_on(self._policies.on_node(node))

    def _gpu(self, before: Incident | None, item: GpuEvidence, kind: str) -> Step:
        verdict = _judge(item, kind, self._settings, _opened_on(before))
        diagnose = partial(
            diagnose_gpu,
            verdict,
            item.gpu,
            jobs=item.jobs,
            schedulers=self._schedulers,
            time_scale=self._time_scale,
        )
        return self._advance(before, gpu_subject(item.gpu), verdict, diagnose)

    def _node(self, before: Incident | None, item: NodeEvidence) -> Step:
        jobs = tuple(sorted({job for gpu in self._on_node[item.node] for job in gpu.jobs}))
        verdict = device_fault.judge_node_fault(item, self._settings, _opened_on(before), jobs=jobs)
        lost = self._lost(item.node)
        diagnose = partial(diagnose_node, verdict, item.node, lost, jobs=jobs, schedulers=self._schedulers)
        whole = int(verdict.figures.get("expected", 0))
        return self._advance(before, node_subject(item.node, lost, whole), verdict, diagnose)

    def _advance(
        self, before: Incident | None, subject: Subject, verdict: Verdict, diagnose: Callable[[], Diagnosis]
    ) -> Step:
        return advance_device(
            before,
            subject,
            verdict,
            diagnose,
            self._settings,
            now=self._now,
            pauses=self._pauses,
            time_scale=self._time_scale,
        )


def _is_active(incident: Incident | None) -> bool:
    return incident is not None and incident.state.active


def _opened_on(incident: Incident | None) -> Mapping[str, float]:
    return incident.figures if incident is not None and incident.state.active else _NOTHING
