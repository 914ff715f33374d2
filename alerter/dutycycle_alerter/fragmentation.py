"""Jobs that are spread over more nodes than they need. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import ceil

from dutycycle_alerter.model import Consumption, Evidence, Job


def accounted(evidence: Evidence) -> list[tuple[Job, Consumption]]:
    """What each job consumed since the last pass, with how much of it while the job was spread."""
    sizes = node_sizes(evidence)
    used: list[tuple[Job, Consumption]] = []
    for item in evidence.jobs:
        # Of a job of which GPUs are left out it is not known how many nodes it is on.
        spread = None if item.left_out else spread_out(item.job, sizes)
        for part in item.recent:
            used.append((item.job, replace(part, spread=None if spread is None else part.allocated * spread)))
    return used


def node_sizes(evidence: Evidence) -> Mapping[str, int]:
    """How many whole GPUs each node has, those that are lost included; nodes of which that is not known are left
    out.
    """
    shown = Counter(item.gpu.node for item in evidence.gpus if not item.gpu.mig)
    expected = {item.node: int(item.expected) for item in evidence.nodes if item.expected is not None}
    return {node: max(count, expected.get(node, 0)) for node, count in shown.items()}


def spread_out(job: Job, sizes: Mapping[str, int]) -> bool | None:
    """Whether a job is on more nodes than its GPUs need, on nodes like the smallest of its own.

    None where it is not known: there are no GPUs, a node's size is unknown, or one of several nodes lends it parts of
    GPUs, so that the number of its GPUs says little.
    """
    nodes = job.nodes
    if len(nodes) <= 1:
        return False if nodes else None
    if any(gpu.mig for gpu in job.gpus) or not all(sizes.get(node) for node in nodes):
        return None
    gpus = {(gpu.node, gpu.uuid or gpu.index) for gpu in job.gpus}
    return len(nodes) > ceil(len(gpus) / min(sizes[node] for node in nodes))
