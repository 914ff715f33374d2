"""Kubernetes' word in a pass: which pods are one job, whose it is, and whether it is over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dutycycle_alerter.declarations import Declarations
from dutycycle_alerter.fleet_now import FleetPart
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.kubernetes.doubts import Doubts, ownerless
from dutycycle_alerter.kubernetes.endings import Endings
from dutycycle_alerter.kubernetes.fleet_hours import fleet_gpus, out_of_service
from dutycycle_alerter.kubernetes.index import Index
from dutycycle_alerter.kubernetes.jobs import Member, Surroundings, end_of, is_over, job_of, member
from dutycycle_alerter.kubernetes.kinds import declared, is_node_of_another
from dutycycle_alerter.kubernetes.model import SCHEDULER, Owner, Pod, Snapshot
from dutycycle_alerter.model import Evidence, GpuEvidence, Job, JobEvidence, job_id, workload_of
from dutycycle_alerter.printable import printable
from dutycycle_alerter.rules.report import Final
from dutycycle_alerter.settings import KubernetesCluster, Settings
from dutycycle_alerter.settings.matching import matches_any
from dutycycle_alerter.views import TargetStatus
from dutycycle_alerter.workloads import End

_SHOWN = 3


@dataclass
class _Pass:
    """What `completed` has found: live pods that exporters show and the API server does not know, by their workloads
    with their namespaces, and the clusters that exporters say their pods are in.
    """

    strangers: dict[str, str] = field(default_factory=dict)
    clusters: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class KubernetesWord:
    """What one API server said last, as of `now`. `completed` comes before what is asked of incidents and targets."""

    settings: KubernetesCluster
    all_settings: Settings
    snapshot: Snapshot
    now: float
    doubts: Doubts
    endings: Endings
    _pass: _Pass = field(default_factory=_Pass)

    @property
    def targets(self) -> tuple[TargetStatus, ...]:
        """Whether it answers, and what is odd."""
        # By the clock of the pass: the watch goes by this machine's.
        last = self.now if self.snapshot.fresh else self.snapshot.read_at
        note = "; ".join(filter(None, (self.snapshot.note, *self._remarks())))
        return (TargetStatus(target_name(self.settings), "", last, self.snapshot.error, note),)

    def claimed(self, evidence: Evidence) -> Evidence:
        """GPUs of its nodes whose holder the metrics do not tell are free: those of a pod are told."""
        left = [item for item in evidence.unowned if not all(gpu.node in self._own_nodes for gpu in item.job.gpus)]
        return evidence if len(left) == len(evidence.unowned) else replace(evidence, unowned=left)

    def completed(self, evidence: Evidence) -> Evidence:
        """Pods put together as the jobs that they belong to. Those that are nodes of another scheduler hold nothing."""
        jobs: list[JobEvidence] = []
        parts: defaultdict[str, list[Member]] = defaultdict(list)
        owners: dict[str, Owner] = {}
        names: dict[str, str] = {}
        for item in evidence.jobs:
            if not self._is_ours(item.job.id, item.job.cluster):
                jobs.append(item)
                continue
            workload = workload_of(item.job.id, item.job.cluster)
            self._pass.clusters.add(item.job.cluster)
            pod = self._index.pod(workload)
            owner = None if pod is None else self._index.owner(pod)
            if pod is None and item.ended is None:
                self._pass.strangers[workload] = item.job.namespace
            if pod is None or owner is None:
                # Which job it is part of is not known, and a part must be neither judged nor reported for the whole.
                unseen = "Kubernetes does not say which job it is part of"
                jobs.append(replace(item, ended=None, visible=False, unseen=unseen))
            elif self._is_node_of_another(pod, owner):
                names[item.job.id] = ""
            else:
                job = job_id(item.job.cluster, owner.workload)
                names[item.job.id] = job
                owners[job] = owner
                parts[job].append(member(item, pod, self.settings))
        strangers = {} if self._filtered else self._pass.strangers
        unclear = self.doubts.namespaces(self.snapshot, strangers, self.now)
        for job, members in sorted(parts.items()):
            owner = self._index.job(owners[job].workload) or owners[job]
            found = job_of(owner, members, self._index.pods_of(owner.workload), self._around)
            if found.ended is not None:
                jobs.append(self.endings.hold(found))
                continue
            self.endings.goes_on(job)
            if owner.namespace in unclear:
                unseen = "it is not known yet of every pod of its namespace which job it is part of"
                found = replace(found, visible=False, unseen=unseen)
            jobs.append(found)
        over = {item.job.id: item for item in self._ended({item.job.id: item for item in jobs})}
        jobs = [*(item for item in jobs if item.job.id not in over), *over.values()]
        return replace(evidence, jobs=jobs, gpus=[_held_by(item, names) for item in evidence.gpus])

    def declared(self, evidence: Evidence) -> Mapping[str, Declarations]:
        """From the annotations of jobs and their pods."""
        found: dict[str, Declarations] = {}
        for item in evidence.jobs:
            if self._is_ours(item.job.id, item.job.cluster):
                workload = workload_of(item.job.id, item.job.cluster)
                owner, pods = self._index.job(workload), self._index.pods_of(workload)
                if owner is not None:
                    living = [pod for pod in pods if not pod.over] or pods
                    found[item.job.id] = declared(owner, living, self.settings.user_annotation)
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
        return node in self._own_nodes

    def other_names(self) -> Mapping[str, str]:
        """Pods that are nodes of another scheduler, which knows them by the pod's name."""
        return {pod.name: pod.node for pod in self._nodes_of_another}

    def fleet(self) -> Sequence[FleetPart]:
        """Its GPUs and what waits for them; not known while it is silent, or may not be asked for nodes."""
        gpus = fleet_gpus(self.snapshot, self.now) if self.snapshot.fresh else None
        return (FleetPart(self.settings.cluster, gpus),)

    def end(self, incident: Incident) -> End | None:
        """Over is a job of which no pod is left: none that the API server knows, and none that exporters show."""
        if not self._is_ours(incident.subject, incident.cluster):
            return None
        workload = workload_of(incident.subject, incident.cluster)
        known = self._index.pods_of(workload)
        if not known and not self._would_know(incident):
            return None
        if not self._is_over(workload, incident.workloads):
            return None
        if not known:
            return End(incident.known_at, "")
        last = max((pod for pod in known if pod.over), key=end_of, default=None)
        at = end_of(last) if last is not None else max(map(end_of, known))
        outcome = "" if last is None else last.reason or last.phase
        return End(min(self.now, max(incident.opened_at, at or self.now)), outcome)

    def final(self, job: Job) -> Final | None:  # noqa: ARG002
        """Kubernetes keeps no accounts."""
        return None

    def _ended(self, shown: Mapping[str, JobEvidence]) -> Iterable[JobEvidence]:
        """The jobs of which it is known by now that no next pod follows, as they were when the last one ended."""
        for kept in self.endings.waiting():
            job = kept.job
            if self._is_over(workload_of(job.id, job.cluster), [gpu.workload for gpu in job.gpus]):
                self.endings.told(job.id)
                yield replace(kept, recent=shown[job.id].recent) if job.id in shown else kept

    def _is_over(self, workload: str, parts: Iterable[str]) -> bool:
        """Whether nothing is left of a job, nor may be: no pod that the API server knows, none that exporters show, and
        none whose owner is still looked for. `parts` are its pods, as far as they are known.
        """
        owner, known, namespace = self._index.job(workload), self._index.pods_of(workload), workload.split("/")[1]
        if not self.snapshot.fresh or not self._is_watched(namespace):
            return False
        if namespace in self._unowned or any(name in self._pass.strangers for name in (workload, *parts)):
            return False
        return owner is None or is_over(owner, known, self._around)

    @cached_property
    def _unowned(self) -> Collection[str]:
        """Namespaces of live pods whose owner is looked for, also of such as wait."""
        return {namespace for _, namespace in ownerless(self.snapshot, pending=True)}

    @property
    def _filtered(self) -> bool:
        """Whether there may be pods that are not watched on purpose."""
        return bool(self.settings.label_selector or self.settings.namespaces)

    @cached_property
    def _index(self) -> Index:
        return Index(self.snapshot)

    @cached_property
    def _around(self) -> Surroundings:
        judging, scale = self.all_settings.judging, self.all_settings.time_scale
        return Surroundings(self.settings, judging, self.now, scale, self.snapshot.nodes)

    @cached_property
    def _own_nodes(self) -> Collection[str]:
        """Where nodes may not be read, those that its pods are on."""
        nodes = self.snapshot.nodes
        return nodes.keys() if nodes is not None else {pod.node for pod in self.snapshot.pods.values()}

    @cached_property
    def _nodes_of_another(self) -> Sequence[Pod]:
        return [
            pod
            for pod in self.snapshot.pods.values()
            if pod.node
            and not pod.over
            and (owner := self._index.owner(pod)) is not None
            and self._is_node_of_another(pod, owner)
        ]

    def _is_node_of_another(self, pod: Pod, owner: Owner) -> bool:
        believed = matches_any(pod.namespace, self.settings.scheduler_namespaces)
        return believed and is_node_of_another(pod, owner, self.settings)

    def _is_ours(self, job: str, cluster: str) -> bool:
        scheduler, *rest = workload_of(job, cluster).split("/")
        return scheduler == SCHEDULER and len(rest) > 1 and self.settings.cluster in ("", cluster)

    def _is_watched(self, namespace: str) -> bool:
        return not self.settings.namespaces or namespace in self.settings.namespaces

    def _would_know(self, incident: Incident) -> bool:
        """Whether a job of which nothing is known would be known if it were there: not what is filtered away, nor what
        may be in another cluster.
        """
        clusters = self._pass.clusters | {incident.cluster}
        return not self.settings.label_selector and (bool(self.settings.cluster) or len(clusters) == 1)

    def _remarks(self) -> Sequence[str]:
        found = []
        lasting = self.doubts.lasting(self.now)
        strangers = [namespace for name, namespace in self._pass.strangers.items() if name in lasting]
        if strangers and self.snapshot.fresh and not self._filtered:
            found.append(
                f"pods that exporters show and the API server does not know: {len(strangers)} (in {_listed(strangers)})"
            )
        if len(self._pass.clusters) > 1 and not self.settings.cluster:
            found.append(f"exporters name several clusters ({_listed(self._pass.clusters)}): say which one this is")
        if self._nodes_of_another:
            where = _listed(pod.namespace for pod in self._nodes_of_another)
            found.append(f"pods that are nodes of another scheduler: {len(self._nodes_of_another)} (in {where})")
        return found


def target_name(settings: KubernetesCluster) -> str:
    """What it is called among the sources."""
    return f"kubernetes {settings.cluster}".rstrip()


def _listed(names: Iterable[str]) -> str:
    """The first few, each once."""
    every = sorted(set(names))
    return ", ".join([*(printable(name, 60) or "none" for name in every[:_SHOWN]), *["..."] * (len(every) > _SHOWN)])


def _held_by(item: GpuEvidence, names: Mapping[str, str]) -> GpuEvidence:
    """The GPU with the jobs that hold it in place of their pods."""
    if not any(job in names for job in item.jobs):
        return item
    return replace(item, jobs=tuple(dict.fromkeys(name for job in item.jobs if (name := names.get(job, job)))))
