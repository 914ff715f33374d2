"""Which GPUs Slurm's running jobs hold, for metrics that do not tell."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dutycycle_alerter.model import Gpu, Job, job_id
from dutycycle_alerter.slurm.model import JobState, SlurmJob, Snapshot


def holders(snapshot: Snapshot, nodes: Collection[str], cluster: str = "") -> Iterator[Job]:
    """Every job that runs and whose GPUs are all known by index. `nodes` are what the metrics call the nodes: by the
    names that Slurm gives them, or by their host names.
    """
    for job in snapshot.jobs.values():
        gpus = _gpus(snapshot, job, nodes)
        if job.state in (JobState.RUNNING, JobState.SUSPENDED) and job.start is not None and gpus:
            yield Job(
                id=job_id(cluster, f"slurm/{job.id}"),
                gpus=gpus,
                start=job.start,
                cluster=cluster,
                scheduler="slurm",
                user=job.user,
                account=job.account,
                partition=job.partition,
                job_id=job.shown_id,
            )


def _gpus(snapshot: Snapshot, job: SlurmJob, nodes: Collection[str]) -> tuple[Gpu, ...]:
    """Empty where any of them is not known."""
    found: list[Gpu] = []
    for name, parts in job.gpus.items():
        known = snapshot.nodes.get(name)
        node = known.hostname if name not in nodes and known is not None and known.hostname in nodes else name
        for part in parts:
            if part.indexes is None:
                return ()
            found += [Gpu(node, str(index)) for index in part.indexes]
    return tuple(found)
