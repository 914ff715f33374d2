"""The schedulers that are configured: connections to each, and the word of all of them as one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dutycycle_alerter.declarations import Declarations
from dutycycle_alerter.fleet_now import AwayNode, FleetPart
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import Evidence, Job
from dutycycle_alerter.rules.report import Final
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.slurm.watching import connect
from dutycycle_alerter.slurm.word import SlurmWorkloads
from dutycycle_alerter.views import TargetStatus, WatchCounts
from dutycycle_alerter.workloads import End, Nobody, Word, Workloads


class Part(Word, Protocol):
    """The word of one of several schedulers."""

    def knows(self, node: str) -> bool:
        """Whether a node is one of its own."""
        ...


class Member(Protocol):
    """One of several schedulers, over time."""

    def ask(self, now: float, incidents: Collection[Incident], ended: Collection[Job]) -> Part:
        """As of `Workloads`."""
        ...

    def watches(self) -> Mapping[str, WatchCounts]:
        """As of `Workloads`."""
        ...

    def close(self) -> None:
        """As of `Workloads`."""
        ...


def connected(settings: Settings) -> Workloads:
    """The configured schedulers. `settings` are scaled. Raises ConfigError where one's access cannot be read."""
    members: list[Member] = []
    try:
        if settings.slurm is not None:
            slurm = settings.slurm
            members.append(SlurmWorkloads(slurm, connect(slurm), time_scale=settings.time_scale))
        if settings.kubernetes:
            # The official client takes 40 MB: it is loaded where it is needed.
            from dutycycle_alerter.kubernetes.cluster import Cluster  # noqa: PLC0415
            from dutycycle_alerter.kubernetes.workloads import KubernetesWorkloads  # noqa: PLC0415

            for one in settings.kubernetes:
                cluster = Cluster(one, time_scale=settings.time_scale)
                members.append(KubernetesWorkloads(one, cluster, settings))
                cluster.start()
    except BaseException:
        for member in members:
            member.close()
        raise
    if not members:
        return Nobody()
    return SeveralWorkloads(tuple(members))


@dataclass(frozen=True, slots=True)
class SeveralWorkloads:
    """Schedulers side by side, Slurm first: where its nodes are pods, what is its is not the pods'."""

    members: tuple[Member, ...]

    def ask(self, now: float, incidents: Collection[Incident], ended: Collection[Job]) -> SeveralWords:
        """What each of them says."""
        return SeveralWords(tuple(member.ask(now, incidents, ended) for member in self.members))

    def watches(self) -> Mapping[str, WatchCounts]:
        """Those of all of them."""
        return {name: counts for member in self.members for name, counts in member.watches().items()}

    def close(self) -> None:
        """Let go of all their connections."""
        for member in self.members:
            member.close()


@dataclass(frozen=True, slots=True)
class SeveralWords:
    """The word of several schedulers. None says anything of another's jobs."""

    parts: tuple[Part, ...]

    @property
    def targets(self) -> tuple[TargetStatus, ...]:
        """Whether they answered."""
        return tuple(target for part in self.parts for target in part.targets)

    def claimed(self, evidence: Evidence) -> Evidence:
        """By each in turn."""
        for part in self.parts:
            evidence = part.claimed(evidence)
        return evidence

    def completed(self, evidence: Evidence) -> Evidence:
        """By each in turn."""
        for part in self.parts:
            evidence = part.completed(evidence)
        return evidence

    def declared(self, evidence: Evidence) -> Mapping[str, Declarations]:
        """Of every job by its own scheduler."""
        return {job: said for part in self.parts for job, said in part.declared(evidence).items()}

    def partitions(self) -> Mapping[str, Sequence[str]]:
        """The partitions of each node."""
        return {node: names for part in self.parts for node, names in part.partitions().items()}

    def out_of_service(self) -> Mapping[str, str]:
        """Nodes that take no jobs, or cannot run any; also those of a scheduler whose nodes are pods of another's."""
        names = self.other_names()
        found: dict[str, str] = {}
        for part in self.parts:
            for node, word in part.out_of_service().items():
                found.setdefault(node, word)
                if node in names:
                    found.setdefault(names[node], word)
        return found

    def cluster_of(self, node: str) -> str:
        """That of the scheduler whose node it is; where there is only one, its."""
        if len(self.parts) == 1:
            return self.parts[0].cluster_of(node)
        return next((part.cluster_of(node) for part in self.parts if part.knows(node)), "")

    def other_names(self) -> Mapping[str, str]:
        """By each of them."""
        return {name: node for part in self.parts for name, node in part.other_names().items()}

    def fleet(self) -> Sequence[FleetPart]:
        """Of each. Nodes that are pods are also known by the names of the nodes that they are on."""
        names = self.other_names()
        return tuple(_renamed(one, names) for part in self.parts for one in part.fleet())

    def end(self, incident: Incident) -> End | None:
        """By whoever knows."""
        return next((end for part in self.parts if (end := part.end(incident)) is not None), None)

    def final(self, job: Job) -> Final | None:
        """By whoever knows."""
        return next((final for part in self.parts if (final := part.final(job)) is not None), None)


def _renamed(part: FleetPart, names: Mapping[str, str]) -> FleetPart:
    if part.gpus is None or not names:
        return part
    return replace(part, gpus=replace(part.gpus, away=tuple(_also(node, names) for node in part.gpus.away)))


def _also(node: AwayNode, names: Mapping[str, str]) -> AwayNode:
    return replace(node, names=node.names | {names[name] for name in node.names if name in names})
