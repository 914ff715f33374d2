"""How many GPUs of the fleet are allocated, free or out of service at one instant, beside what waits for them."""

from __future__ import annotations

from collections.abc import Mapping

from dutycycle_alerter.fleet_now import AwayNode, FleetGpus
from dutycycle_alerter.slurm.model import SlurmJob, SlurmNode, Snapshot

_NOT_FOR_GPUS = frozenset(
    {
        "BeginTime",
        "Dependency",
        "DependencyNeverSatisfied",
        "JobArrayTaskLimit",
        "JobHeldAdmin",
        "JobHeldUser",
        "BadConstraints",
        "InactiveLimit",
    }
)


def fleet_gpus(snapshot: Snapshot) -> FleetGpus | None:
    """The fleet at the snapshot's instant; None while its nodes are not known."""
    if snapshot.nodes_at is None:
        return None
    held = _held(snapshot.jobs)
    total = allocated = unallocated = drained = down = 0
    away: list[AwayNode] = []
    for node in snapshot.nodes.values():
        if node.future or not node.gpus:
            continue
        used = min(node.gpus, _used(node, held.get(node.name, 0)))
        free = node.gpus - used
        total += node.gpus
        allocated += used
        if node.down or node.draining or node.maintenance:
            away.append(_away(node, free, used))
        if node.down:
            down += free
        elif node.draining or node.maintenance:
            drained += free
        else:
            unallocated += free
    pending = sum(request.gpus for request in snapshot.pending)
    waiting = sum(request.gpus for request in snapshot.pending if request.reason in _NOT_FOR_GPUS)
    return FleetGpus(snapshot.at, total, allocated, unallocated, drained, down, pending, waiting, tuple(away))


def _away(node: SlurmNode, free: int, used: int) -> AwayNode:
    names = frozenset(filter(None, (node.name, node.hostname)))
    kind = next(iter(node.gpu_types)) if len(node.gpu_types) == 1 else ""
    return AwayNode(names, kind, free, used, node.down)


def _held(jobs: Mapping[int, SlurmJob]) -> Mapping[str, int]:
    """GPUs that jobs hold on each node."""
    found: dict[str, int] = {}
    for job in jobs.values():
        if job.holds_nodes:
            for name, gpus in job.gpus.items():
                found[name] = found.get(name, 0) + sum(part.count for part in gpus)
    return found


def _used(node: SlurmNode, held: int) -> int:
    """Nodes are read less often than jobs: what jobs hold is newer, what the node says also counts epilogs."""
    return held if node.gpus_allocated is None else max(held, node.gpus_allocated)
