"""Nodes as they come, decoded into what is kept of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Raw, Struct

from dutycycle_alerter.kubernetes.model import Node
from dutycycle_alerter.kubernetes.objects import BROKEN, MalformedError, ObjectMeta, Seen
from dutycycle_alerter.kubernetes.parts import is_part
from dutycycle_alerter.kubernetes.quantities import parse_quantity
from dutycycle_alerter.printable import printable

_COUNT, _PRODUCT = "nvidia.com/gpu.count", "nvidia.com/gpu.product"
"""Labels of NVIDIA's GPU feature discovery."""
_GKE = "cloud.google.com/gke-"
_ACCELERATOR, _PARTITION = f"{_GKE}accelerator", f"{_GKE}gpu-partition-size"
_CLIENTS = f"{_GKE}max-shared-clients-per-gpu"
"""Labels of GKE, whose nodes have none of NVIDIA's. There `nvidia.com/gpu` counts shares and MIG instances, too."""
_NUMBER = re.compile(r"[0-9]{1,4}")
_PROFILE = re.compile(r"([1-7])g\.([1-9][0-9]{0,2})gb", re.ASCII)
_MEMORY = re.compile(r"-([1-9][0-9]{1,2})gb$", re.ASCII)
_MEMORIES = {"nvidia-tesla-a100": 40, "nvidia-b200": 180, "nvidia-rtx-pro-6000": 96}
"""Gigabytes of the accelerators whose names do not have them and that GKE divides into MIG instances."""
_SLICES = 7
"""Compute slices of a GPU with MIG."""
_SLICED, _SHARED = "-MIG-", "-SHARED"
_LONGEST = 120


class _Spec(Struct, gc=False):
    unschedulable: bool | None = None


class _Condition(Struct, gc=False):
    type: str = ""
    status: str = ""


class _Status(Struct, gc=False):
    conditions: list[_Condition] | None = None
    allocatable: dict[str, str | float] | None = None


class _Node(Struct, gc=False):
    metadata: ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_NODE = msgspec.json.Decoder(_Node)


class NodeDecoder:
    """Decodes nodes. `is_gpu` tells which resources are GPUs."""

    def __init__(self, is_gpu: Callable[[str], bool]) -> None:
        self._is_gpu = is_gpu

    def __call__(self, body: bytes | Raw) -> Seen[Node]:
        """A node. Raises MalformedError."""
        try:
            found = _NODE.decode(body)
            offered = found.status.allocatable or {}
            amounts = {name: int(parse_quantity(amount)) for name, amount in offered.items() if self._is_gpu(name)}
        except BROKEN as error:
            raise MalformedError(f"not a node: {str(error)[:200]}") from None
        name = found.metadata.name
        labels = found.metadata.labels or {}
        conditions = found.status.conditions or ()
        kept = Node(
            name=name,
            schedulable=not found.spec.unschedulable,
            ready=any(one.type == "Ready" and one.status == "True" for one in conditions),
            gpus=_wholes(amounts, labels),
            type=printable((labels.get(_PRODUCT) or labels.get(_ACCELERATOR, "")).removesuffix(_SHARED), _LONGEST),
        )
        return Seen(found.metadata.uid, name, found.metadata.resourceVersion, kept)


def _wholes(amounts: Mapping[str, int], labels: Mapping[str, str]) -> int:
    """How many whole GPUs a node has, by its labels, else by what it offers of each resource.

    Where all GPUs are sliced alike both count slices, and no label of NVIDIA's says how many make a GPU. Where GPUs are
    shared what is offered counts shares. NVIDIA's label counts GPUs all the same; GKE's count shares per GPU.
    """
    if _SLICED in labels.get(_PRODUCT, ""):
        return 0
    if _NUMBER.fullmatch(told := labels.get(_COUNT, "")):
        return int(told)
    offered = sum(amount for name, amount in amounts.items() if not is_part(name))
    parts = _clients(labels) * _instances(labels)
    # Shares of a GPU that is partly unhealthy are still of one GPU.
    return -(-offered // parts) if parts else 0


def _clients(labels: Mapping[str, str]) -> int:
    """Return how many shares GKE makes of a GPU or MIG instance; 0 where the label is no number."""
    clients = labels.get(_CLIENTS)
    if clients is None:
        return 1
    return int(clients) if _NUMBER.fullmatch(clients) else 0


def _instances(labels: Mapping[str, str]) -> int:
    """Return how many MIG instances GKE makes of a GPU; 0 where that is unknown.

    GKE fills each GPU with instances of one profile: as many as its compute slices and its memory allow.
    """
    partition, accelerator = labels.get(_PARTITION), labels.get(_ACCELERATOR, "")
    if not partition:
        return 1
    profile, named = _PROFILE.fullmatch(partition), _MEMORY.search(accelerator)
    memory = int(named[1]) if named else _MEMORIES.get(accelerator)
    if not profile or memory is None:
        return 0
    # Profiles round their memory: two of 71 GB make 141.
    return min(_SLICES // int(profile[1]), round(memory / int(profile[2])))
