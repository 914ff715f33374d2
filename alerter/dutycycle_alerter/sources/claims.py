"""GPUs whose holder the metrics do not tell, and the scheduler's word whose they are.

Where a site keeps the exporter that it has, a Slurm job may be nowhere in the metrics. The scheduler knows the job's
nodes and GPU indexes: then what those GPUs did since the job began is what the job did.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from dutycycle_alerter.model import Consumption, Evidence, Job, JobEvidence, WindowEvidence, workload_of

UNOWNED = "gpu/"
"""What the workload of a GPU begins with that nobody is known to hold."""


def is_unowned(job: Job) -> bool:
    """Whether this is a GPU, and not a job that holds one."""
    return workload_of(job.id, job.cluster).startswith(UNOWNED)


def claim(evidence: Evidence, jobs: Iterable[Job]) -> Evidence:
    """The evidence with these jobs of a scheduler in it, as far as each of their GPUs is among the unowned ones.

    A job's GPUs are found by node and index; its `start` is when it got them. A job of which some GPU cannot be found
    is left out: it is unknown. Jobs that the metrics tell of stay as they are.
    """
    known = {item.job.id for item in evidence.jobs}
    free = {(gpu.node, gpu.index): item for item in evidence.unowned for gpu in item.job.gpus}
    claimed: list[JobEvidence] = []
    taken: set[str] = set()
    for job in jobs:
        parts = [free.get((gpu.node, gpu.index)) for gpu in job.gpus]
        found = [part for part in parts if part is not None]
        if job.id in known or not found or len(found) < len(parts):
            continue
        claimed.append(_joined(job, found))
        taken.update(part.job.id for part in found)
    left = [item for item in evidence.unowned if item.job.id not in taken]
    return replace(evidence, jobs=[*evidence.jobs, *claimed], unowned=left)


def _joined(job: Job, parts: Sequence[JobEvidence]) -> JobEvidence:
    return JobEvidence(
        job=replace(job, gpus=tuple(gpu for part in parts for gpu in part.job.gpus)),
        at=parts[0].at,
        window=partial(_window, parts),
        # Before that the GPUs were others'.
        watched_from=max(job.start, *(part.watched_from for part in parts)),
        visible=all(part.visible for part in parts),
        recent=_together(parts),
    )


def _window(parts: Sequence[JobEvidence], length: float) -> WindowEvidence:
    return WindowEvidence(length, tuple(usage for part in parts for usage in part.window(length).gpus))


def _together(parts: Sequence[JobEvidence]) -> tuple[Consumption, ...]:
    sums: defaultdict[tuple[str, float | None], list[Consumption]] = defaultdict(list)
    for part in parts:
        for used in part.recent:
            sums[used.model, used.at].append(used)
    return tuple(
        Consumption(
            model=model,
            allocated=sum(one.allocated for one in each),
            observed=sum(one.observed for one in each),
            busy=sum(one.busy for one in each),
            energy=None if all(one.energy is None for one in each) else sum(one.energy or 0.0 for one in each),
            at=at,
        )
        for (model, at), each in sums.items()
    )
