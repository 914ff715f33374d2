"""Slurm's word in a pass: what it says of jobs and nodes now, and what it said last where it is silent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dutycycle_alerter.declarations import Declarations
from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.fleet_now import FleetPart
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import Evidence, Job, JobEvidence, workload_of
from dutycycle_alerter.rules.report import Final
from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.slurm.accounting import Accounting, Told
from dutycycle_alerter.slurm.completion import completed
from dutycycle_alerter.slurm.facts import CLOCKS_APART, JobFacts, facts_of, is_slurms, settled
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.fleet_hours import fleet_gpus
from dutycycle_alerter.slurm.holders import holders
from dutycycle_alerter.slurm.memory import KEPT, NOTHING, Memory, learnt, raw_number
from dutycycle_alerter.slurm.model import FinalFigures, JobState, SlurmJob, SlurmNode, Snapshot
from dutycycle_alerter.slurm.pacing import Pacing
from dutycycle_alerter.slurm.unheard import SETTLED, Unheard, never_named
from dutycycle_alerter.slurm.watching import AT_ONCE, Watch
from dutycycle_alerter.sources.claims import Claims
from dutycycle_alerter.views import TargetStatus, WatchCounts
from dutycycle_alerter.workloads import End


class SlurmWorkloads:
    """One Slurm. `settings` are scaled; `time_scale` shortens what two clocks may differ by, as it does all else."""

    def __init__(self, settings: Slurm, watch: Watch, *, time_scale: float = 1.0) -> None:
        self._settings = settings
        self._watch = watch
        self._time_scale = time_scale
        # Slurm's times are whole seconds.
        self._apart = max(2.0, CLOCKS_APART / time_scale)
        self._accounting = Accounting(watch, apart=self._apart, time_scale=time_scale)
        self._accounting_first = False
        """Whether slurmctld was late in the last pass: it may hang for hours, in which accounting tells what ended."""
        self._seen_at: float | None = None
        self._memory = NOTHING
        self._shown: dict[int, float] = {}
        self._over: Mapping[int, tuple[FinalFigures, ...]] = {}
        """What accounting said of the jobs that exporters show: whose epilog never ran is shown on."""
        self._pacing = Pacing(AT_ONCE, time_scale=time_scale)
        self._numbers: Mapping[str, int] = {}
        """Raw ids of what was asked about lately by the id that people use: slurmctld forgets a job before we do."""
        self._claims = Claims()
        self._unheard = Unheard(SETTLED / time_scale)

    def ask(self, now: float, incidents: Collection[Incident], ended: Collection[Job]) -> SlurmWord:
        """Slurm's word; without an answer it is what it said last, ends nothing, and says why.

        It waits for an answer that does not come once, `timeout` long: then nothing more is asked in this pass.
        """
        told: Told | None = None
        if self._accounting_first:
            told = self._accounting.ask(self._wanted(now, None, incidents, ended), now, silent=True)
        if told is not None and told.late:
            self._accounting_first = False
            snapshot, problem = None, "not asked in this pass: accounting did not answer in time"
        else:
            snapshot, problem = self._asked(now)
            self._accounting_first = late = self._watch.late
            if told is None:
                wanted, silent = self._wanted(now, snapshot, incidents, ended), snapshot is None
                told = self._accounting.put_off() if late else self._accounting.ask(wanted, now, silent=silent)
        known = {**self._over, **told.runs}
        self._over = {number: runs for number, runs in known.items() if number in self._shown}
        notes = () if snapshot is None else (Nonsense(snapshot.nonsense).told(), self._unheard.told())
        targets = [TargetStatus("slurm", "", self._seen_at, problem, "; ".join(filter(None, notes)))]
        if self._settings.accounting:
            targets.append(TargetStatus("slurm accounting", "", told.at, told.error, told.note))
        ordered = self._settings.gpu_order == "nvml"
        return SlurmWord(
            snapshot,
            known,
            tuple(targets),
            self._settings.cluster,
            self._apart,
            claims=self._claims,
            unheard=self._unheard,
            shown=self._shown,
            ordered=ordered,
            memory=replace(self._memory, numbers={**self._numbers, **self._memory.numbers}),
        )

    def _asked(self, now: float) -> tuple[Snapshot | None, str]:
        """What slurmctld says, None where it is silent; and why, or what it does not tell."""
        try:
            snapshot = self._watch.snapshot(now)
        except SourceError as error:
            return None, str(error)
        self._seen_at = now
        self._memory = learnt(self._memory, snapshot, shown=self._shown, kept=KEPT / self._time_scale)
        return snapshot, snapshot.nodes_error

    def watches(self) -> Mapping[str, WatchCounts]:
        """None: it is asked at every pass."""
        return {}

    def close(self) -> None:
        """Let go of connections."""
        self._watch.close()

    def _wanted(
        self, now: float, snapshot: Snapshot | None, incidents: Collection[Incident], ended: Collection[Job]
    ) -> Mapping[int, float]:
        """Jobs that are over or may be, by raw id with a time at which each ran: the reports' first, which wait. Of
        those that exporters show and slurmctld does not know, as far as we remember, few at a time: an alerter that
        has just begun does not know which of them it has forgotten, and which `PrivateData` hides.
        """
        numbers = {**self._numbers, **self._memory.numbers}
        named: dict[str, int] = {}
        wanted: dict[int, float] = {}
        for job in ended:
            number = _number(job.id, job.cluster, self._settings.cluster, numbers)
            if number is not None:
                wanted[number] = job.start
                named[workload_of(job.id, job.cluster)] = number
        for incident in incidents:
            number = _number(incident.subject, incident.cluster, self._settings.cluster, numbers)
            if number is None:
                continue
            named[workload_of(incident.subject, incident.cluster)] = number
            known = None if snapshot is None else snapshot.jobs.get(number)
            if not incident.state.active or snapshot is None or known is None or known.state is JobState.ENDED:
                wanted[number] = min(incident.started_at, wanted.get(number, incident.started_at))
        self._numbers = {workload.partition("/")[2]: number for workload, number in named.items()}
        if snapshot is not None:
            told = snapshot.jobs.keys() | self._memory.jobs.keys() | self._over.keys()
            strangers = {number: start for number, start in self._shown.items() if number not in told}
            for number in self._pacing.due(strangers, now):
                wanted.setdefault(number, strangers[number])
        since = now - self._settings.accounting_lookback
        return {number: start for number, start in wanted.items() if start >= since}


@dataclass(frozen=True, slots=True)
class SlurmWord:
    """What Slurm said at one instant, None where it was silent; `memory` is what it said last. `runs` are those that
    are over, by raw id. `apart` is as for `facts_of`. `shown` has the jobs that exporters showed in the last
    pass, by raw id with when each began, and gets those that they show in this one.
    """

    snapshot: Snapshot | None
    runs: Mapping[int, tuple[FinalFigures, ...]] = field(default_factory=dict)
    targets: tuple[TargetStatus, ...] = ()
    cluster: str = ""
    apart: float = CLOCKS_APART
    claims: Claims = field(default_factory=Claims)
    unheard: Unheard = field(default_factory=Unheard)
    shown: dict[int, float] = field(default_factory=dict)
    ordered: bool = False
    memory: Memory = NOTHING

    def claimed(self, evidence: Evidence) -> Evidence:
        """By the GPUs' nodes, and by their indexes where these are known to be NVML's (`ordered`)."""
        if self.snapshot is None or not evidence.unowned:
            return evidence
        nodes = {gpu.node for item in evidence.unowned for gpu in item.job.gpus}
        return self.claims.made(evidence, holders(self.snapshot, nodes, self.cluster, ordered=self.ordered))

    def completed(self, evidence: Evidence) -> Evidence:
        """Jobs with who they are and what they asked for; ended where Slurm says that their run is over.

        Where Slurm says that a job runs, it has not ended, whatever its exporters lack: nothing is known of it then.
        Nor is anything known of a job of which a silent Slurm never told: it may be excluded, or interactive. And of
        one that Slurm does not know nothing is, until accounting can have been asked.
        """
        facts = self._facts(evidence)
        if self.snapshot is not None:
            self.unheard.look(evidence.jobs, facts, self.memory, self.cluster)
            facts = {
                job: replace(known, working=False)
                if never_named(known, self.memory) and known.id not in self.shown
                else known
                for job, known in facts.items()
            }
        shown = {facts[item.job.id].id: item.job.start for item in evidence.jobs if item.job.id in facts}
        self.shown.clear()
        self.shown.update(shown)
        since = evidence.accounted_from
        return replace(evidence, jobs=[self._completed(item, facts.get(item.job.id), since) for item in evidence.jobs])

    def declared(self, evidence: Evidence) -> Mapping[str, Declarations]:
        """From the comments of jobs."""
        return {job: known.declarations for job, known in self._facts(evidence).items()}

    def partitions(self) -> Mapping[str, Sequence[str]]:
        """The partitions of each node, by its name and by its host's."""
        found: dict[str, Sequence[str]] = {}
        for node in self._nodes():
            found[node.name] = node.partitions
            if node.hostname:
                found.setdefault(node.hostname, node.partitions)
        return found

    def out_of_service(self) -> Mapping[str, str]:
        """By the nodes' names and by their hosts'."""
        found: dict[str, str] = {}
        for node in self._nodes():
            if node.down or node.draining or node.maintenance:
                word = "down" if node.down else "drained"
                found[node.name] = word
                if node.hostname:
                    found.setdefault(node.hostname, word)
        return found

    def cluster_of(self, node: str) -> str:  # noqa: ARG002 - it is the only one
        """This one."""
        return self.cluster

    def knows(self, node: str) -> bool:
        """Whether a node is one of its own, by its name or its host's."""
        return any(node in (known.name, known.hostname) for known in self._nodes())

    def other_names(self) -> Mapping[str, str]:
        """None."""
        return {}

    def fleet(self) -> Sequence[FleetPart]:
        """The whole cluster's GPUs; not known while it is silent."""
        return (FleetPart(self.cluster, None if self.snapshot is None else fleet_gpus(self.snapshot)),)

    def end(self, incident: Incident) -> End | None:
        """By accounting, else by slurmctld, which forgets jobs after some minutes."""
        number = _number(incident.subject, incident.cluster, self.cluster, self.memory.numbers)
        if number is None:
            return None
        run = self._run(number, incident.started_at)
        if run is not None and run.end is not None:
            return End(run.end, run.state, run)
        known = None if self.snapshot is None else self.snapshot.jobs.get(number)
        return None if known is None else self._over(known, incident)

    def final(self, job: Job) -> Final | None:
        """The figures of the job's run."""
        number = _number(job.id, job.cluster, self.cluster, self.memory.numbers)
        run = None if number is None else self._run(number, job.start)
        if run is None:
            return None
        return Final(run.cpu_seconds, None if run.max_rss is None else float(run.max_rss), run.end, run.state)

    def _facts(self, evidence: Evidence) -> Mapping[str, JobFacts]:
        jobs = [item.job for item in evidence.jobs]
        found = facts_of(self.snapshot, jobs, cluster=self.cluster, clocks_apart=self.apart, memory=self.memory)
        for job in jobs:
            known = found.get(job.id)
            if known is not None and known.id in self.runs and (known.absent or known.ended):
                found[job.id] = settled(known, job, self.runs[known.id], clocks_apart=self.apart)
        return found

    def _completed(self, item: JobEvidence, known: JobFacts | None, since: float | None) -> JobEvidence:
        if known is not None:
            found = completed(item, known, accounted_from=since, clocks_apart=self.apart)
            return replace(found, workloads=(workload_of(item.job.id, item.job.cluster),))
        unheard = self.snapshot is None and is_slurms(item.job, self.cluster)
        return replace(item, visible=False) if unheard and item.ended is None else item

    def _nodes(self) -> Iterable[SlurmNode]:
        return (self.memory if self.snapshot is None else self.snapshot).nodes.values()

    def _run(self, number: int, moment: float) -> FinalFigures | None:
        """The run that was going on at a moment."""
        for run in self.runs.get(number, ()):
            if run.start is None or run.end is None:
                continue
            if run.start - self.apart <= moment <= run.end + self.apart:
                return run
        return None

    def _over(self, known: SlurmJob, incident: Incident) -> End | None:
        began_later = known.start is not None and known.start > max(incident.opened_at, incident.known_at) + self.apart
        if known.state is JobState.ENDED and known.end is not None and not began_later:
            return End(known.end, known.states[0] if known.states else "")
        if began_later and known.restarts != 0:
            # It runs again, or waits to: the run that the incident is about is over, and nobody says when.
            return End(incident.known_at, "REQUEUED")
        return None


def _number(subject: str, cluster: str, ours: str, numbers: Mapping[str, int]) -> int | None:
    """Slurm's raw id of a job; None for what is no job of this Slurm's. `ours` is its cluster, empty for any."""
    scheduler, _, name = workload_of(subject, cluster).partition("/")
    return raw_number(name, numbers) if scheduler == "slurm" and ours in ("", cluster) else None
