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
_NUMBER = re.compile(r"[0-9]{1,4}")
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
            type=printable(labels.get(_PRODUCT, "").removesuffix(_SHARED), _LONGEST),
        )
        return Seen(found.metadata.uid, name, found.metadata.resourceVersion, kept)


def _wholes(amounts: Mapping[str, int], labels: Mapping[str, str]) -> int:
    """How many whole GPUs a node has, by its labels, else by what it offers of each resource.

    Where all GPUs are sliced alike both count slices, of which nobody says how many make a GPU. Where GPUs are shared
    what is offered counts shares, under a name of their own or not, and only the label counts GPUs.
    """
    if _SLICED in labels.get(_PRODUCT, ""):
        return 0
    if _NUMBER.fullmatch(told := labels.get(_COUNT, "")):
        return int(told)
    return sum(amount for name, amount in amounts.items() if not is_part(name))
