"""How many GPUs of each model are allocated, free, out of service or unknown right now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dutycycle_alerter.model import Evidence, GpuEvidence
from dutycycle_alerter.slurm.fleet_hours import FleetGpus


@dataclass(frozen=True, slots=True)
class FleetAmounts:
    """GPUs of one model (empty: of any), as numbers at an instant or as GPU-seconds over a time.

    The first five are disjoint. `drained` and `down` are not allocated on nodes that take no jobs, or cannot run any;
    `unknown` are those that their exporters do not show, and those whose holder is not known. `pending` wait for GPUs
    in the scheduler's queue, `held` are the part of them that waits for something else first.
    """

    cluster: str = ""
    model: str = ""
    allocated: float = 0.0
    unallocated: float = 0.0
    drained: float = 0.0
    down: float = 0.0
    unknown: float = 0.0
    pending: float = 0.0
    held: float = 0.0


_Gpu = tuple[str, str]


def fleet_now(
    evidence: Evidence,
    *,
    cluster: str = "",
    out_of_service: Mapping[str, str] | None = None,
    scheduler: FleetGpus | None = None,
) -> list[FleetAmounts]:
    """GPUs whose exporters have answered, by model; and without a model, what waits for GPUs in the scheduler's queue.

    `out_of_service` says of nodes that they are `drained` or `down`. Such a node of which nothing is known counts as
    the scheduler has it, by its type of GPU in place of the model. A GPU that is divided into instances counts by the
    part of them that is allocated.
    """
    away = out_of_service or {}
    parts: defaultdict[_Gpu, list[GpuEvidence]] = defaultdict(list)
    wholes: dict[_Gpu, GpuEvidence] = {}
    for item in evidence.gpus:
        place = item.gpu.node, item.gpu.uuid
        if not item.gpu.mig:
            wholes[place] = item
        elif item.visible:
            # Instances that are not shown may be of an earlier division.
            parts[place].append(item)
    unclear = {(gpu.node, gpu.uuid) for item in evidence.unowned for gpu in item.job.gpus}
    found: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for place, whole in wholes.items():
        for kind, amount in _kinds(whole, parts[place], away.get(place[0], ""), unclear=place in unclear):
            found[whole.gpu.model][kind] += amount
    if scheduler is not None:
        known = {node for node, _ in wholes}
        for node in scheduler.away:
            if not node.names & known:
                word = "down" if node.down else "drained"
                found[node.type][word] += node.free
                found[node.type]["unknown"] += node.used
        found[""]["pending"], found[""]["held"] = scheduler.pending, scheduler.held
    # What is of no model comes last.
    return [
        FleetAmounts(cluster, model, **found[model]) for model in sorted(found, key=lambda model: (not model, model))
    ]


def _kinds(whole: GpuEvidence, parts: list[GpuEvidence], away: str, *, unclear: bool) -> Iterator[tuple[str, float]]:
    """What a GPU counts as, by how much of it."""
    if not whole.visible:
        yield away if away == "down" else "unknown", 1.0
        return
    held = [bool(part.jobs) for part in parts] or [bool(whole.jobs)]
    allocated = sum(held) / len(held)
    yield "allocated", allocated
    yield "unknown" if unclear else away or "unallocated", 1.0 - allocated
