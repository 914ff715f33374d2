"""How many GPUs of the fleet are allocated, free or out of service at one instant, beside what waits for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dutycycle_alerter.slurm.model import SlurmJob, SlurmNode, Snapshot


@dataclass(frozen=True, slots=True)
class AwayNode:
    """A node that takes no jobs, or cannot run any (`down`): the names that it may be known by, its GPUs' type (empty
    where there is none, or more than one), and how many of them jobs hold.
    """

    names: frozenset[str]
    type: str
    free: int
    used: int
    down: bool


@dataclass(frozen=True, slots=True)
class FleetGpus:
    """Numbers of GPUs at the instant `at`; the four after `total` are disjoint and sum up to it.

    `drained` are not allocated on nodes that take no new jobs (drained, draining, maintenance), `down` on nodes that
    cannot run any. `pending` are those that waiting jobs ask for, `held` the part of them whose jobs wait for their
    user or their dependencies and not for GPUs. `away` are the nodes of those that are drained or down.
    """

    at: float
    total: int = 0
    allocated: int = 0
    unallocated: int = 0
    drained: int = 0
    down: int = 0
    pending: int = 0
    held: int = 0
    away: tuple[AwayNode, ...] = ()


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
