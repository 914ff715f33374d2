"""Evidence of a job completed by what Slurm says of it: who, how much, whether it is over, whether it works at all."""

from __future__ import annotations

from dataclasses import replace

from dutycycle_alerter.model import Job, JobEvidence, JobKind
from dutycycle_alerter.slurm.facts import JobFacts
from dutycycle_alerter.slurm.model import JobState

_ALIVE = frozenset({JobState.RUNNING, JobState.SUSPENDED})


def completed(item: JobEvidence, known: JobFacts) -> JobEvidence:
    """The job as Slurm knows it. While it does not work, what its GPUs do says nothing of it; nor does any window that
    shows a time in which it was suspended.
    """
    item = replace(item, job=_job(item, known))
    if known.suspended is not None:
        item = replace(item, watched_from=min(item.at, max(item.watched_from, known.suspended)))
    if known.ended and not known.absent:
        return replace(item, ended=item.at if known.ended_at is None else min(item.at, known.ended_at))
    if item.ended is not None:
        # Exporters lost what Slurm says still runs.
        return replace(item, ended=None, visible=False) if known.state in _ALIVE else item
    return item if known.working else replace(item, visible=False)


def _job(item: JobEvidence, known: JobFacts) -> Job:
    job = item.job
    return replace(
        job,
        kind=JobKind.INTERACTIVE if known.interactive and job.kind is JobKind.BATCH else job.kind,
        user=known.user or job.user,
        account=known.account or job.account,
        partition=known.partition or job.partition,
        name=known.name,
        qos=known.qos,
        time_limit=known.time_limit,
        cpus=None if known.cpus is None else float(known.cpus),
        memory=None if known.memory is None else float(known.memory),
    )
