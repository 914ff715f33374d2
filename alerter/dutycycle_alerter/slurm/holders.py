"""Which GPUs Slurm's running jobs hold, for metrics that do not tell."""

from __future__ import annotations

import re
from collections.abc import Collection

from dutycycle_alerter.model import Job, job_id
from dutycycle_alerter.slurm.model import JobState, NodeGpus, SlurmJob, SlurmNode, Snapshot
from dutycycle_alerter.sources.claims import Held, Holders, Holding

_HOLDS = frozenset({JobState.RUNNING, JobState.SUSPENDED})
_OVER = frozenset({JobState.COMPLETING, JobState.ENDED})
_INSTANCE = re.compile(r"[0-9]g\.[0-9]+gb", re.ASCII | re.IGNORECASE)


def holders(snapshot: Snapshot, nodes: Collection[str], cluster: str = "", *, ordered: bool = False) -> Holders:
    """Every job that runs with GPUs, and those that are over. `nodes` are what the metrics call the nodes: by the names
    that Slurm gives them, or by their host names. `ordered` tells that Slurm's indexes are NVML's.
    """
    names = {name: _shown_as(name, node, nodes) for name, node in snapshot.nodes.items()}
    live = [job for job in snapshot.jobs.values() if job.state in _HOLDS and any(job.gpus.values())]
    over = {
        job_id(cluster, f"slurm/{job.id}"): job.end
        for job in snapshot.jobs.values()
        if job.state in _OVER and job.end is not None
    }
    holdings = [
        Holding(
            Job(
                id=job_id(cluster, f"slurm/{job.id}"),
                gpus=(),
                start=snapshot.at if job.start is None else job.start,
                cluster=cluster,
                scheduler="slurm",
                user=job.user,
                account=job.account,
                partition=job.partition,
                job_id=str(job.id),
            ),
            {
                names.get(name, name): _held(job, parts, snapshot.nodes.get(name), ordered=ordered)
                for name, parts in job.gpus.items()
                if parts
            },
        )
        for job in live
    ]
    return Holders(holdings, over, frozenset(names.values()))


def _shown_as(name: str, node: SlurmNode, nodes: Collection[str]) -> str:
    return node.hostname if name not in nodes and node.hostname in nodes else name


def _held(job: SlurmJob, parts: Collection[NodeGpus], node: SlurmNode | None, *, ordered: bool) -> Held:
    count = sum(part.count for part in parts)
    types = {part.type for part in parts} | set(() if node is None else node.gpu_types)
    if node is None or job.start is None or any(_INSTANCE.search(kind) for kind in types):
        # Which of a node's GPUs has a MIG instance is not known to Slurm's list.
        return Held(count, 0)
    indexes = tuple(str(index) for part in parts for index in part.indexes or ())
    known = ordered and all(part.indexes is not None for part in parts) and len(set(indexes)) == count
    return Held(count, node.gpus, indexes if known else None)
