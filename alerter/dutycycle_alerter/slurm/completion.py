"""Evidence of a job completed by what Slurm says of it: who, how much, whether it is over, whether it works at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dutycycle_alerter.model import Consumption, Job, JobEvidence, JobKind
from dutycycle_alerter.slurm.facts import JobFacts
from dutycycle_alerter.slurm.model import JobState

_ALIVE = frozenset({JobState.RUNNING, JobState.SUSPENDED})


def completed(item: JobEvidence, known: JobFacts, *, accounted_from: float | None, clocks_apart: float) -> JobEvidence:
    """The job as Slurm knows it. While it does not work, what its GPUs do says nothing of it; nor does any window that
    shows a time in which it was suspended. What its GPUs are said to be held for after its end is nobody's: its epilog
    is still to come, or never ran. `accounted_from` is as in `Evidence`, `clocks_apart` as for `facts_of`.
    """
    item = replace(item, job=_job(item, known))
    if known.over_at is not None:
        until = known.over_at + clocks_apart
        item = replace(item, recent=tuple(_begun(item.recent, until, accounted_from)))
    if known.suspended is not None:
        item = replace(item, watched_from=min(item.at, max(item.watched_from, known.suspended)))
    if known.ended:
        return replace(item, ended=item.at if known.ended_at is None else min(item.at, known.ended_at))
    if item.ended is not None:
        # Exporters lost what Slurm says still runs.
        return replace(item, ended=None, visible=False) if known.state in _ALIVE else item
    return item if known.working else replace(item, visible=False)


def _begun(recent: Iterable[Consumption], until: float, accounted_from: float | None) -> Iterable[Consumption]:
    """What began to be consumed by then, as far as that is known."""
    for part in recent:
        since = accounted_from if part.since is None else part.since
        if since is None or since <= until:
            yield part


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
