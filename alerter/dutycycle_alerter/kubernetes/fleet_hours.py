"""How many of a cluster's GPUs are allocated, free or out of service at one instant, beside what waits for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from dutycycle_alerter.fleet_now import AwayNode, FleetGpus
from dutycycle_alerter.kubernetes.model import Snapshot


def out_of_service(snapshot: Snapshot) -> Mapping[str, str]:
    """Nodes that are not ready (`down`) or cordoned (`drained`)."""
    nodes = (snapshot.nodes or {}).values()
    return {node.name: "drained" if node.ready else "down" for node in nodes if not (node.ready and node.schedulable)}


def fleet_gpus(snapshot: Snapshot, at: float) -> FleetGpus | None:
    """The fleet as of `at`, by what pods request; None while nodes are not known. In whole GPUs: what waits for a share
    or a slice of one waits for nothing that can be counted.
    """
    nodes = snapshot.nodes
    if nodes is None:
        return None
    used: Counter[str] = Counter()
    pending = held = 0
    for pod in snapshot.pods.values():
        if pod.over:
            continue
        if pod.node:
            used[pod.node] += pod.gpus
        else:
            pending += pod.gpus - pod.parts
            held += pod.gpus - pod.parts if pod.waiting == "SchedulingGated" else 0
    # Shares and slices are spread over GPUs before two are of one.
    taken = {node.name: min(node.gpus, used[node.name]) for node in nodes.values()}
    away = tuple(
        AwayNode(frozenset({node.name}), node.type, node.gpus - taken[node.name], taken[node.name], not node.ready)
        for node in nodes.values()
        if node.gpus and not (node.ready and node.schedulable)
    )
    total, allocated = sum(node.gpus for node in nodes.values()), sum(taken.values())
    drained, down = (sum(node.free for node in away if node.down is word) for word in (False, True))
    free = total - allocated - drained - down
    return FleetGpus(at, total, allocated, free, drained, down, pending, held, away)
