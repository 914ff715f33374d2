"""What a scheduler adds to the jobs that a source shows: who they are, what they asked for, and when they ended.

The engine asks once a pass, before it reads the evidence. A scheduler that does not answer adds nothing and ends
nothing, and says so in its status.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from dutycycle_alerter.declarations import Declarations
from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import Evidence, Job, JobEvidence, JobKind, workload_of
from dutycycle_alerter.rules.report import Final
from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.slurm.facts import CLOCKS_APART, JobFacts, facts_of, settled
from dutycycle_alerter.slurm.fleet_hours import FleetGpus, fleet_gpus
from dutycycle_alerter.slurm.holders import holders
from dutycycle_alerter.slurm.model import FinalFigures, JobState, SlurmJob, Snapshot
from dutycycle_alerter.slurm.watching import Watch
from dutycycle_alerter.sources.claims import Claims
from dutycycle_alerter.views import TargetStatus

_ALIVE = frozenset({JobState.RUNNING, JobState.SUSPENDED})


@dataclass(frozen=True, slots=True)
class End:
    """How a job ended by its scheduler's word: when (Unix seconds), its word for how, and the figures of accounting,
    where there are any.
    """

    at: float
    outcome: str
    figures: FinalFigures | None = None


class Word(Protocol):
    """What the schedulers said in one pass."""

    @property
    def targets(self) -> tuple[TargetStatus, ...]:
        """Whether they answered."""
        ...

    def claimed(self, evidence: Evidence) -> Evidence:
        """The evidence with the jobs that hold GPUs of which the metrics do not tell the holder."""
        ...

    def completed(self, evidence: Evidence) -> Evidence:
        """The evidence with what the schedulers know of its jobs."""
        ...

    def declared(self, evidence: Evidence) -> Mapping[str, Declarations]:
        """What jobs say of themselves, by job id."""
        ...

    def partitions(self) -> Mapping[str, Sequence[str]]:
        """The partitions of each node."""
        ...

    def out_of_service(self) -> Mapping[str, str]:
        """Nodes that take no jobs, `drained`, or cannot run any, `down`."""
        ...

    def fleet(self) -> FleetGpus | None:
        """How many GPUs are allocated, free or out of service; None where that is not known."""
        ...

    def end(self, incident: Incident) -> End | None:
        """How the incident's job ended; None while it has not, or where that is not known."""
        ...

    def final(self, job: Job) -> Final | None:
        """What accounting says of a job that has ended; None where it does not say, or not yet."""
        ...


class Workloads(Protocol):
    """The schedulers, over time."""

    def ask(self, now: float, incidents: Collection[Incident], ended: Collection[Job]) -> Word:
        """What they say now. Final figures are asked for of `ended` jobs, and of those of `incidents` that are over."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


@dataclass(frozen=True, slots=True)
class Nobody:
    """No scheduler is configured: the exporters' word is all there is."""

    targets: tuple[TargetStatus, ...] = ()

    def ask(self, now: float, incidents: Collection[Incident], ended: Collection[Job]) -> Nobody:  # noqa: ARG002
        """Nothing."""
        return self

    def claimed(self, evidence: Evidence) -> Evidence:
        """GPUs whose holder the metrics do not tell have none."""
        return replace(evidence, unowned=()) if evidence.unowned else evidence

    def completed(self, evidence: Evidence) -> Evidence:
        """The evidence as it is."""
        return evidence

    def declared(self, evidence: Evidence) -> Mapping[str, Declarations]:  # noqa: ARG002
        """Nothing."""
        return {}

    def partitions(self) -> Mapping[str, Sequence[str]]:
        """Not known."""
        return {}

    def out_of_service(self) -> Mapping[str, str]:
        """Not known."""
        return {}

    def fleet(self) -> FleetGpus | None:
        """Not known."""
        return None

    def end(self, incident: Incident) -> End | None:  # noqa: ARG002
        """Not known."""
        return None

    def final(self, job: Job) -> Final | None:  # noqa: ARG002
        """Not known."""
        return None

    def close(self) -> None:
        """Nothing to let go of."""


class SlurmWorkloads:
    """One Slurm. `settings` are scaled; `time_scale` shortens what two clocks may differ by, as it does all else."""

    def __init__(self, settings: Slurm, watch: Watch, *, time_scale: float = 1.0) -> None:
        self._settings = settings
        self._watch = watch
        # Slurm's times are whole seconds.
        self._apart = max(2.0, CLOCKS_APART / time_scale)
        self._seen_at: float | None = None
        self._told_at: float | None = None
        self._claims = Claims()

    def ask(self, now: float, incidents: Collection[Incident], ended: Collection[Job]) -> SlurmWord:
        """Slurm's word; without an answer an empty one that says why."""
        snapshot: Snapshot | None = None
        problem = ""
        try:
            snapshot = self._watch.snapshot(now)
        except SourceError as error:
            problem = str(error)
        else:
            self._seen_at = now
            problem = snapshot.nodes_error
        runs, trouble = self._runs(now, snapshot, incidents, ended)
        targets = [TargetStatus("slurm", "", self._seen_at, problem)]
        if self._settings.accounting:
            targets.append(TargetStatus("slurm accounting", "", self._told_at, trouble))
        ordered = self._settings.gpu_order == "nvml"
        return SlurmWord(
            snapshot, runs, tuple(targets), self._settings.cluster, self._apart, claims=self._claims, ordered=ordered
        )

    def close(self) -> None:
        """Let go of connections."""
        self._watch.close()

    def _runs(
        self, now: float, snapshot: Snapshot | None, incidents: Collection[Incident], ended: Collection[Job]
    ) -> tuple[Mapping[int, tuple[FinalFigures, ...]], str]:
        """Runs that are over of the jobs that are, by raw id, and why they could not be had."""
        wanted = {number: job.start for job in ended if (number := _number(job.id, job.cluster)) is not None}
        for incident in incidents:
            number = _number(incident.subject, incident.cluster)
            if number is None or not self._ours(incident.cluster):
                continue
            known = None if snapshot is None else snapshot.jobs.get(number)
            if not incident.state.active or snapshot is None or known is None or known.state is JobState.ENDED:
                wanted[number] = min(incident.started_at, wanted.get(number, incident.started_at))
        since = now - self._settings.accounting_lookback
        wanted = {number: start for number, start in wanted.items() if start >= since}
        if not wanted:
            return {}, ""
        try:
            runs = self._watch.ended(wanted, min(wanted.values()) - self._apart)
        except SourceError as error:
            return {}, str(error)
        self._told_at = now
        return runs, ""

    def _ours(self, cluster: str) -> bool:
        return not self._settings.cluster or cluster == self._settings.cluster


@dataclass(frozen=True, slots=True)
class SlurmWord:
    """What Slurm said at one instant; `runs` are those that are over, by raw id. `apart` is as for `facts_of`."""

    snapshot: Snapshot | None
    runs: Mapping[int, tuple[FinalFigures, ...]] = field(default_factory=dict)
    targets: tuple[TargetStatus, ...] = ()
    cluster: str = ""
    apart: float = CLOCKS_APART
    claims: Claims = field(default_factory=Claims)
    ordered: bool = False

    def claimed(self, evidence: Evidence) -> Evidence:
        """By the GPUs' nodes, and by their indexes where these are known to be NVML's (`ordered`)."""
        if self.snapshot is None or not evidence.unowned:
            return evidence
        nodes = {gpu.node for item in evidence.unowned for gpu in item.job.gpus}
        return self.claims.made(evidence, holders(self.snapshot, nodes, self.cluster, ordered=self.ordered))

    def completed(self, evidence: Evidence) -> Evidence:
        """Jobs with who they are and what they asked for; ended where Slurm says that their run is over.

        Where Slurm says that a job runs, it has not ended, whatever its exporters lack: nothing is known of it then.
        """
        facts = self._facts(evidence)
        return replace(evidence, jobs=[_completed(item, facts.get(item.job.id)) for item in evidence.jobs])

    def declared(self, evidence: Evidence) -> Mapping[str, Declarations]:
        """From the comments of jobs."""
        return {job: known.declarations for job, known in self._facts(evidence).items()}

    def partitions(self) -> Mapping[str, Sequence[str]]:
        """The partitions of each node, by its name and by its host's."""
        found: dict[str, Sequence[str]] = {}
        for node in () if self.snapshot is None else self.snapshot.nodes.values():
            found[node.name] = node.partitions
            if node.hostname:
                found.setdefault(node.hostname, node.partitions)
        return found

    def out_of_service(self) -> Mapping[str, str]:
        """By the nodes' names and by their hosts'."""
        found: dict[str, str] = {}
        for node in () if self.snapshot is None else self.snapshot.nodes.values():
            if node.down or node.draining or node.maintenance:
                word = "down" if node.down else "drained"
                found[node.name] = word
                if node.hostname:
                    found.setdefault(node.hostname, word)
        return found

    def fleet(self) -> FleetGpus | None:
        """The whole cluster's GPUs."""
        return None if self.snapshot is None else fleet_gpus(self.snapshot)

    def end(self, incident: Incident) -> End | None:
        """By accounting, else by slurmctld, which forgets jobs after some minutes."""
        number = _number(incident.subject, incident.cluster)
        if number is None or (self.cluster and incident.cluster != self.cluster):
            return None
        run = self._run(number, incident.started_at)
        if run is not None and run.end is not None:
            return End(run.end, run.state, run)
        known = None if self.snapshot is None else self.snapshot.jobs.get(number)
        return None if known is None else self._over(known, incident)

    def final(self, job: Job) -> Final | None:
        """The figures of the job's run."""
        number = _number(job.id, job.cluster)
        run = None if number is None else self._run(number, job.start)
        if run is None:
            return None
        return Final(run.cpu_seconds, None if run.max_rss is None else float(run.max_rss), run.end, run.state)

    def _facts(self, evidence: Evidence) -> Mapping[str, JobFacts]:
        jobs = [item.job for item in evidence.jobs]
        found = facts_of(self.snapshot, jobs, cluster=self.cluster, clocks_apart=self.apart)
        for job in jobs:
            known = found.get(job.id)
            if known is not None and known.id in self.runs and (known.absent or known.ended):
                found[job.id] = settled(known, job, self.runs[known.id], clocks_apart=self.apart)
        return found

    def _run(self, number: int, moment: float) -> FinalFigures | None:
        """The run that was going on at a moment."""
        for run in self.runs.get(number, ()):
            if run.start is None or run.end is None:
                continue
            if run.start - self.apart <= moment <= run.end + self.apart:
                return run
        return None

    def _over(self, known: SlurmJob, incident: Incident) -> End | None:
        began_later = known.start is not None and known.start > incident.opened_at + self.apart
        if known.state is JobState.ENDED and known.end is not None and not began_later:
            return End(known.end, known.states[0] if known.states else "")
        if began_later and known.restarts != 0:
            # It runs again, or waits to: the run that the incident is about is over, and nobody says when.
            return End(incident.known_at, "REQUEUED")
        return None


def _completed(item: JobEvidence, known: JobFacts | None) -> JobEvidence:
    if known is None or known.absent:
        return item
    job = item.job
    kind = JobKind.INTERACTIVE if known.interactive and job.kind is JobKind.BATCH else job.kind
    job = replace(
        job,
        kind=kind,
        user=known.user or job.user,
        account=known.account or job.account,
        partition=known.partition or job.partition,
        name=known.name,
        qos=known.qos,
        time_limit=known.time_limit,
        cpus=None if known.cpus is None else float(known.cpus),
        memory=None if known.memory is None else float(known.memory),
    )
    if known.ended:
        ended = item.at if known.ended_at is None else min(item.at, known.ended_at)
        return replace(item, job=job, ended=ended)
    if item.ended is not None and known.state in _ALIVE:
        return replace(item, job=job, ended=None, visible=False)
    return replace(item, job=job)


def _number(subject: str, cluster: str) -> int | None:
    """Slurm's raw id of a job; None for what is no job of Slurm's."""
    scheduler, _, number = workload_of(subject, cluster).partition("/")
    return int(number) if scheduler == "slurm" and number.isascii() and number.isdecimal() else None
