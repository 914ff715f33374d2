"""What Slurm adds to the jobs that metrics show: who, how much, for how long, and whether it is over. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dutycycle_alerter.declarations import NONE, Declarations, from_comment
from dutycycle_alerter.model import Job
from dutycycle_alerter.slurm.memory import NOTHING, Memory, raw_number
from dutycycle_alerter.slurm.model import FinalFigures, JobState, SlurmJob, Snapshot
from dutycycle_alerter.slurm.states import ENDED

CLOCKS_APART = 30.0
"""Seconds by which a node's clock and slurmctld's may differ, and a prolog may take: the start of a run as its exporter
tells it lies so far from Slurm's at most.
"""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Slurm's word on one job of ours. `id` is the raw job id.

    `state` is None where Slurm does not answer, and where it no longer knows the job (`absent`): it has been over for a
    while, which the accounting database may tell more about; without that it is for the exporters to say. What else is
    known of such a job is what Slurm said last. `working` is false where what the GPUs do says nothing of the job: it
    is suspended, its epilog runs, or it was over by the last word of a Slurm that is silent. `suspended` is when it was
    last known to be suspended. `ended` is true only where Slurm says that the run whose GPUs we see is over, because
    the job ended or because it waits or runs again after a requeue; `ended_at` is when, None where that is not told.
    `over_at` is the same by the last word that told it, also where Slurm no longer says so.
    `outcome` is Slurm's word for how (`COMPLETED`, `TIMEOUT`, `REQUEUED`). `interactive` is true for what was not
    submitted as a script (salloc, srun), None if that is not known. Texts are anybody's.
    """

    id: int
    state: JobState | None = None
    absent: bool = False
    working: bool = True
    suspended: float | None = None
    ended: bool = False
    ended_at: float | None = None
    over_at: float | None = None
    outcome: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    name: str = ""
    start: float | None = None
    time_limit: float | None = None
    cpus: int | None = None
    memory: int | None = None
    interactive: bool | None = None
    declarations: Declarations = NONE
    final: FinalFigures | None = None


def facts_of(
    snapshot: Snapshot | None,
    jobs: Iterable[Job],
    *,
    cluster: str = "",
    clocks_apart: float = CLOCKS_APART,
    memory: Memory = NOTHING,
) -> dict[str, JobFacts]:
    """Facts by `Job.id`, for the jobs of Slurm that are in this cluster (any, where that is empty).

    Without a snapshot, because Slurm did not answer, they are those of `memory`, which holds what the last one said:
    nothing has ended then, and of a job that is not in it there are none.
    """
    found: dict[str, JobFacts] = {}
    for job in jobs:
        number = raw_id(job, cluster, memory.numbers)
        if number is None:
            continue
        known = None if snapshot is None else snapshot.jobs.get(number)
        remembered = memory.jobs.get(number)
        if snapshot is not None and known is not None:
            found[job.id] = _facts(known, job, clocks_apart, memory)
        elif remembered is not None:
            last = _facts(remembered, job, clocks_apart, memory)
            found[job.id] = replace(
                last,
                state=None,
                absent=snapshot is not None,
                working=last.working and not last.ended,
                ended=False,
                ended_at=None,
                outcome="",
            )
        elif snapshot is not None:
            found[job.id] = JobFacts(number, absent=True)
    return found


def raw_id(job: Job, cluster: str = "", numbers: Mapping[str, int] = NOTHING.numbers) -> int | None:
    """A job's raw id in this Slurm; None for a job of another scheduler or cluster, or one without a number (SLUID).

    `numbers` are those of the names that people use, as in `Memory`.
    """
    return raw_number(job.job_id, numbers) if is_slurms(job, cluster) else None


def is_slurms(job: Job, cluster: str = "") -> bool:
    """Whether it is a job of the Slurm of this cluster (any, where that is empty)."""
    return job.scheduler == "slurm" and cluster in ("", job.cluster)


def settled(facts: JobFacts, job: Job, runs: Sequence[FinalFigures], *, clocks_apart: float = CLOCKS_APART) -> JobFacts:
    """The same with the final figures of the run that is the job's, if it is among these; else unchanged."""
    run = _run_of(job, runs, clocks_apart)
    if run is None:
        return facts
    return replace(
        facts,
        ended=True,
        ended_at=run.end,
        over_at=run.end,
        outcome=run.state,
        user=facts.user or run.user,
        account=facts.account or run.account,
        partition=facts.partition or run.partition,
        qos=facts.qos or run.qos,
        name=facts.name or run.name,
        start=run.start,
        time_limit=run.limit if facts.time_limit is None else facts.time_limit,
        cpus=run.cpus if facts.cpus is None else facts.cpus,
        memory=run.memory if facts.memory is None else facts.memory,
        final=run,
    )


def _facts(known: SlurmJob, job: Job, clocks_apart: float, memory: Memory) -> JobFacts:
    ended, ended_at, outcome = _end(known, job, clocks_apart)
    suspended = [at for at in (known.suspended, memory.suspended.get(known.id)) if at is not None]
    return JobFacts(
        id=known.id,
        state=known.state,
        working=known.state not in (JobState.SUSPENDED, JobState.COMPLETING),
        suspended=max(suspended, default=None),
        ended=ended,
        ended_at=ended_at,
        over_at=ended_at,
        outcome=outcome,
        user=known.user,
        account=known.account,
        partition=known.partition,
        qos=known.qos,
        name=known.name,
        start=known.start,
        time_limit=known.limit,
        cpus=known.cpus_allocated if known.cpus_allocated is not None else known.cpus_requested,
        memory=known.memory_allocated if known.memory_allocated is not None else known.memory_requested,
        interactive=None if known.batch is None else not known.batch,
        declarations=from_comment(known.comment),
    )


def _end(known: SlurmJob, job: Job, clocks_apart: float) -> tuple[bool, float | None, str]:
    """Whether the run that we see is over, when, and Slurm's word for it.

    A snapshot may be older than the run: then it tells of a former one, and nothing of ours.
    """
    if known.restarts and known.start is not None and known.start > job.start + clocks_apart:
        return True, None, "REQUEUED"
    if known.state is JobState.PENDING:
        # A requeued job is submitted anew when its former run is over.
        over = bool(known.restarts) and known.submit is not None and known.submit > job.start
        return (True, known.submit, "REQUEUED") if over else (False, None, "")
    if known.state is JobState.ENDED and not (known.end is not None and job.start > known.end + clocks_apart):
        return True, known.end, next((word for word in known.states if word in ENDED), known.states[0])
    return False, None, ""


def _run_of(job: Job, runs: Sequence[FinalFigures], clocks_apart: float) -> FinalFigures | None:
    """The run that began when the job's GPUs were allocated: the last that did not begin later."""
    ours = [run for run in runs if run.start is not None and run.start <= job.start + clocks_apart]
    latest = max(ours, key=lambda run: run.start or 0.0, default=None)
    over_before = latest is not None and latest.end is not None and latest.end < job.start - clocks_apart
    return None if over_before else latest
