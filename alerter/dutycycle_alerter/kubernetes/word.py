"""Kubernetes' word in a pass: which pods are one job, whose it is, and whether it is over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from dutycycle_alerter.declarations import Declarations
from dutycycle_alerter.fleet_now import FleetPart
from dutycycle_alerter.grouping import together
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.kubernetes.fleet_hours import fleet_gpus, out_of_service
from dutycycle_alerter.kubernetes.kinds import declared, expects_uneven, is_node_of_another, kind_of
from dutycycle_alerter.kubernetes.model import SCHEDULER, Owner, Pod, Snapshot
from dutycycle_alerter.kubernetes.troubles import troubles
from dutycycle_alerter.kubernetes.users import user_of
from dutycycle_alerter.model import Evidence, GpuEvidence, Job, JobEvidence, job_id, workload_of
from dutycycle_alerter.rules.report import Final
from dutycycle_alerter.settings import KubernetesCluster, Settings
from dutycycle_alerter.views import TargetStatus, WatchCounts
from dutycycle_alerter.workloads import End

_FIRST_ANSWER = 10.0
"""Seconds that the first pass waits for the API server: what pods consume until they are known is their own."""


_LOOKING_FOR = 600.0
"""Seconds, unscaled, for which a pod without an owner may be part of any job of its namespace."""


class Watch(Protocol):
    """One cluster's API server, over time (`kubernetes.cluster`)."""

    def wait_synced(self, timeout: float) -> bool:
        """Whether everything has been read, which is waited for, for some seconds at most."""
        ...

    def snapshot(self) -> Snapshot:
        """What it has told."""
        ...

    def counters(self) -> WatchCounts:
        """How the watch fares."""
        ...

    def close(self) -> None:
        """Let go of connections and threads."""
        ...


class KubernetesWorkloads:
    """One Kubernetes cluster. `all_settings` are scaled."""

    def __init__(self, settings: KubernetesCluster, watch: Watch, all_settings: Settings) -> None:
        self._settings = settings
        self._watch = watch
        self._all = all_settings
        self._asked = False
        self._ownerless: dict[str, float] = {}

    def ask(self, now: float, incidents: Collection[Incident], ended: Collection[Job]) -> KubernetesWord:  # noqa: ARG002
        """What the watch has heard so far. Without an answer nothing has ended, and pods that it does not know are
        unknown.
        """
        if not self._asked:
            self._watch.wait_synced(min(_FIRST_ANSWER, self._all.schedule.pass_interval))
            self._asked = True
        snapshot = self._watch.snapshot()
        return KubernetesWord(self._settings, self._all, snapshot, now, self._unclear(snapshot, now))

    def watches(self) -> Mapping[str, WatchCounts]:
        """Its own."""
        return {_name(self._settings): self._watch.counters()}

    def close(self) -> None:
        """Let go of connections and threads."""
        self._watch.close()

    def _unclear(self, snapshot: Snapshot, now: float) -> frozenset[str]:
        """Namespaces with a pod whose owner is looked for: it may be part of any job there. One that is looked for
        in vain does not hold up the others for ever.
        """
        waiting = {
            uid: pod for uid, pod in snapshot.pods.items() if not pod.over and pod.node and uid not in snapshot.owners
        }
        self._ownerless = {uid: self._ownerless.get(uid, now) for uid in waiting}
        patience = _LOOKING_FOR / self._all.time_scale
        return frozenset(pod.namespace for uid, pod in waiting.items() if now - self._ownerless[uid] < patience)


@dataclass(frozen=True)
class KubernetesWord:
    """What one API server said last, as of `now`."""

    settings: KubernetesCluster
    all_settings: Settings
    snapshot: Snapshot
    now: float
    unclear: frozenset[str] = frozenset()
    """Namespaces in which it is not known of every pod which job it is part of."""

    @property
    def targets(self) -> tuple[TargetStatus, ...]:
        """Whether it answers."""
        # By the clock of the pass: the watch goes by this machine's.
        last = self.now if self.snapshot.fresh else self.snapshot.read_at
        return (TargetStatus(_name(self.settings), "", last, self.snapshot.error, self.snapshot.note),)

    def claimed(self, evidence: Evidence) -> Evidence:
        """GPUs of its nodes whose holder the metrics do not tell are free: those of a pod are told."""
        left = [item for item in evidence.unowned if not all(self._free(gpu.node) for gpu in item.job.gpus)]
        return evidence if len(left) == len(evidence.unowned) else replace(evidence, unowned=left)

    def completed(self, evidence: Evidence) -> Evidence:
        """Pods put together as the jobs that they belong to. Those that are nodes of another scheduler hold nothing."""
        jobs: list[JobEvidence] = []
        parts: defaultdict[str, list[tuple[JobEvidence, Pod]]] = defaultdict(list)
        owners: dict[str, Owner] = {}
        names: dict[str, str] = {}
        for item in evidence.jobs:
            if not self._is_ours(item.job):
                jobs.append(item)
                continue
            pod = self._pod(item.job)
            owner = None if pod is None else self.snapshot.owners.get(pod.uid)
            if pod is None or owner is None:
                # Which job it is part of is not known, and a part must not be judged for the whole.
                jobs.append(item if item.ended is not None else replace(item, visible=False))
            elif is_node_of_another(pod, owner, self.settings):
                names[item.job.id] = ""
            else:
                job = job_id(item.job.cluster, owner.workload)
                names[item.job.id] = job
                owners[job] = owner
                parts[job].append((self._with_end(item, pod), pod))
        for job, members in sorted(parts.items()):
            jobs.append(self._job(job, owners[job], members))
        return replace(evidence, jobs=jobs, gpus=[_held_by(item, names) for item in evidence.gpus])

    def declared(self, evidence: Evidence) -> Mapping[str, Declarations]:
        """From the annotations of jobs and their pods."""
        owners = {owner.workload: owner for owner in self.snapshot.owners.values()}
        found: dict[str, Declarations] = {}
        for item in evidence.jobs:
            owner = owners.get(workload_of(item.job.id, item.job.cluster)) if self._is_ours(item.job) else None
            if owner is not None:
                found[item.job.id] = declared(owner, self._pods_of.get(owner.uid, ()), self.settings.user_annotation)
        return found

    def partitions(self) -> Mapping[str, Sequence[str]]:
        """Kubernetes has none."""
        return {}

    def out_of_service(self) -> Mapping[str, str]:
        """Nodes that are not ready, or are cordoned."""
        return out_of_service(self.snapshot)

    def cluster_of(self, node: str) -> str:  # noqa: ARG002 - it is the only one
        """This one."""
        return self.settings.cluster

    def knows(self, node: str) -> bool:
        """Whether it is one of its nodes."""
        return node in (self.snapshot.nodes or {})

    def other_names(self) -> Mapping[str, str]:
        """Pods that are nodes of another scheduler, which knows them by the pod's name."""
        return {
            pod.name: pod.node
            for pod in self.snapshot.pods.values()
            if pod.node
            and not pod.over
            and (owner := self.snapshot.owners.get(pod.uid)) is not None
            and is_node_of_another(pod, owner, self.settings)
        }

    def fleet(self) -> Sequence[FleetPart]:
        """Its GPUs and what waits for them; not known while it is silent, or may not be asked for nodes."""
        gpus = fleet_gpus(self.snapshot, self.now) if self.snapshot.fresh else None
        return (FleetPart(self.settings.cluster, gpus),)

    def end(self, incident: Incident) -> End | None:
        """Over is a job of which no pod is left, of all that hold GPUs or want them."""
        if not self.snapshot.fresh or not self._is_ours_by_name(incident.subject, incident.cluster):
            return None
        workload = workload_of(incident.subject, incident.cluster)
        _, namespace, *_, uid = workload.split("/")
        if namespace in self.unclear:
            return None
        known = self._pods_of.get(uid, ())
        if any(not pod.over for pod in known):
            return None
        last = max(known, key=_end_of, default=None)
        if last is None:
            return End(incident.known_at, "")
        return End(min(self.now, max(incident.opened_at, _end_of(last) or self.now)), last.reason or last.phase)

    def final(self, job: Job) -> Final | None:  # noqa: ARG002
        """Kubernetes keeps no accounts."""
        return None

    @cached_property
    def _pods_of(self) -> Mapping[str, Sequence[Pod]]:
        """The pods of each job, by the uid of its owner."""
        found: defaultdict[str, list[Pod]] = defaultdict(list)
        for uid, owner in self.snapshot.owners.items():
            pod = self.snapshot.pods.get(uid)
            if pod is not None:
                found[owner.uid].append(pod)
        return found

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str], Pod]:
        """The pod that has a name now."""
        return {(pod.namespace, pod.name): pod for pod in self.snapshot.pods.values() if not pod.over}

    def _is_ours(self, job: Job) -> bool:
        return job.scheduler == SCHEDULER and self.settings.cluster in ("", job.cluster)

    def _is_ours_by_name(self, subject: str, cluster: str) -> bool:
        parts = workload_of(subject, cluster).split("/")
        return parts[0] == SCHEDULER and len(parts) > 3 and self.settings.cluster in ("", cluster)

    def _free(self, node: str) -> bool:
        return self.snapshot.nodes is None or node in self.snapshot.nodes

    def _pod(self, job: Job) -> Pod | None:
        """By its uid, else, where the exporter did not learn that, by the name that it has now."""
        uid = workload_of(job.id, job.cluster).rpartition("/")[2]
        return self.snapshot.pods.get(uid) if uid else self._by_name.get((job.namespace, job.pod))

    def _with_end(self, item: JobEvidence, pod: Pod) -> JobEvidence:
        """The part, ended where the API server says so; not seen where exporters lost what is still there."""
        if pod.over:
            return replace(item, ended=min(item.at, _end_of(pod) or item.at))
        if item.ended is not None and pod.deleted is None and pod.phase == "Running":
            return replace(item, ended=None, visible=False)
        return item

    def _job(self, job: str, owner: Owner, members: Sequence[tuple[JobEvidence, Pod]]) -> JobEvidence:
        first, known = members[0][0].job, self._pods_of.get(owner.uid, ())
        alive = [pod for _, pod in members if not pod.over] or [pod for _, pod in members]
        cpus, memory = ([getattr(pod, name) for pod in alive] for name in ("cpus", "memory"))
        described = replace(
            first,
            id=job,
            gpus=(),
            kind=kind_of([pod for _, pod in members], owner),
            user=user_of(members[0][1], owner, self.settings),
            namespace=owner.namespace,
            pod=alive[0].name,
            name=owner.name,
            owner=owner.kind,
            expect_uneven=any(item.job.expect_uneven for item, _ in members) or expects_uneven(owner),
            labels={**_merged(pod.labels for pod in reversed(alive)), **first.labels, **owner.labels},
            cpus=None if None in cpus else sum(cpus),
            memory=None if None in memory else sum(memory),
            troubles=tuple(troubles(known)),
        )
        found = together(described, [item for item, _ in members], self.all_settings.judging)
        shown = {pod.uid for _, pod in members}
        silent = any(_holds_gpus(pod) and pod.uid not in shown for pod in known)
        if found.ended is None and (silent or owner.namespace in self.unclear):
            # What is seen may not be the whole job.
            found = replace(found, visible=False)
        if owner.kind != "Pod":
            return found
        # A pod that is a job by itself need not be named at each of its GPUs.
        return replace(found, job=replace(found.job, gpus=tuple(replace(gpu, workload="") for gpu in found.job.gpus)))


def _name(settings: KubernetesCluster) -> str:
    """What it is called among the sources."""
    return f"kubernetes {settings.cluster}".rstrip()


def _holds_gpus(pod: Pod) -> bool:
    return not pod.over and bool(pod.node) and pod.gpus > 0 and pod.phase == "Running"


def _end_of(pod: Pod) -> float:
    return pod.finished or pod.deleted or 0.0


def _merged(labels: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {name: value for some in labels for name, value in some.items()}


def _held_by(item: GpuEvidence, names: Mapping[str, str]) -> GpuEvidence:
    """The GPU with the jobs that hold it in place of their pods."""
    if not any(job in names for job in item.jobs):
        return item
    return replace(item, jobs=tuple(_unlike(names.get(job, job) for job in item.jobs)))


def _unlike(jobs: Iterable[str]) -> Iterator[str]:
    yield from dict.fromkeys(job for job in jobs if job)
