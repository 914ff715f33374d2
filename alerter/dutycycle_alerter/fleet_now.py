"""How many GPUs of each model are allocated, free, out of service or unknown right now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dutycycle_alerter.model import Evidence, GpuEvidence


@dataclass(frozen=True, slots=True)
class FleetAmounts:
    """GPUs of one model (empty: of any), as numbers at an instant or as GPU-seconds over a time.

    The first five are disjoint. `drained` and `down` are not allocated on nodes that take no jobs, or cannot run any;
    `unknown` are those that their exporters do not show, and those whose holder is not known. `pending` wait for GPUs
    in the scheduler's queue, `held` are the part of them that waits for something else first. `waited` are unallocated
    while others waited for as many: the lesser of the two, of all models of a cluster together, because requests name
    no model; so some of them may be of a kind that nobody waited for. None where no scheduler reports its queue, and
    where no exporter shows a GPU.
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
    waited: float | None = None


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


@dataclass(frozen=True, slots=True)
class FleetPart:
    """What one scheduler says of its GPUs, None where it is silent, and what its part of the fleet is called."""

    cluster: str
    gpus: FleetGpus | None


_Gpu = tuple[str, str]


def fleet_now(
    evidence: Evidence,
    *,
    cluster_of: Callable[[str], str] = lambda _: "",
    out_of_service: Mapping[str, str] | None = None,
    parts: Sequence[FleetPart] = (),
) -> list[FleetAmounts]:
    """GPUs whose exporters have answered, by cluster and model; and without a model, what waits for GPUs in the queue
    of each of the schedulers (`parts`). `cluster_of` tells that of a node.

    `out_of_service` says of nodes that they are `drained` or `down`. Such a node of which nothing is known counts as
    the scheduler has it, by its type of GPU in place of the model. A GPU that is divided into instances counts by the
    part of them that is allocated.
    """
    away = out_of_service or {}
    instances: defaultdict[_Gpu, list[GpuEvidence]] = defaultdict(list)
    wholes: dict[_Gpu, GpuEvidence] = {}
    for item in evidence.gpus:
        place = item.gpu.node, item.gpu.uuid
        if not item.gpu.mig:
            wholes[place] = item
        elif item.visible:
            # Instances that are not shown may be of an earlier division.
            instances[place].append(item)
    unclear = {(gpu.node, gpu.uuid) for item in evidence.unowned for gpu in item.job.gpus}
    found: defaultdict[tuple[str, str], defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for place, whole in wholes.items():
        for kind, amount in _kinds(whole, instances[place], away.get(place[0], ""), unclear=place in unclear):
            found[cluster_of(place[0]), whole.gpu.model][kind] += amount
    known = {node for node, _ in wholes}
    # Labels of Kubernetes' nodes cannot have spaces.
    models = {whole.gpu.model.replace(" ", "-"): whole.gpu.model for whole in wholes.values()}
    for part in parts:
        if part.gpus is None:
            continue
        for node in part.gpus.away:
            if not node.names & known:
                word = "down" if node.down else "drained"
                model = models.get(node.type, node.type)
                found[part.cluster, model][word] += node.free
                found[part.cluster, model]["unknown"] += node.used
        found[part.cluster, ""]["pending"] += part.gpus.pending
        found[part.cluster, ""]["held"] += part.gpus.held
    seen = {cluster_of(node) for (node, _), whole in wholes.items() if whole.visible}
    for cluster in {part.cluster for part in parts if part.gpus is not None} & seen:
        free = sum(kinds["unallocated"] for key, kinds in found.items() if key[0] == cluster and "unallocated" in kinds)
        queue = found[cluster, ""]
        queue["waited"] = min(free, max(0.0, queue["pending"] - queue["held"]))
    # What is of no model comes last.
    order = sorted(found, key=lambda key: (key[0], not key[1], key[1]))
    return [FleetAmounts(cluster=key[0], model=key[1], **found[key]) for key in order]


def _kinds(whole: GpuEvidence, parts: list[GpuEvidence], away: str, *, unclear: bool) -> Iterator[tuple[str, float]]:
    """What a GPU counts as, by how much of it."""
    if not whole.visible:
        yield away if away == "down" else "unknown", 1.0
        return
    held = [bool(part.jobs) for part in parts] or [bool(whole.jobs)]
    allocated = sum(held) / len(held)
    yield "allocated", allocated
    yield "unknown" if unclear else away or "unallocated", 1.0 - allocated
