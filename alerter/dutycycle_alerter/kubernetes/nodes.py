"""Nodes as they come, decoded into what is kept of them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from dutycycle_alerter.kubernetes.model import Node
from dutycycle_alerter.kubernetes.objects import BROKEN, MalformedError, ObjectMeta, Seen
from dutycycle_alerter.kubernetes.quantities import parse_quantity


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
            gpus = sum(int(parse_quantity(amount)) for name, amount in offered.items() if self._is_gpu(name))
        except BROKEN as error:
            raise MalformedError(f"not a node: {str(error)[:200]}") from None
        name = found.metadata.name
        conditions = found.status.conditions or ()
        kept = Node(
            name=name,
            schedulable=not found.spec.unschedulable,
            ready=any(one.type == "Ready" and one.status == "True" for one in conditions),
            gpus=gpus,
        )
        return Seen(found.metadata.uid, name, found.metadata.resourceVersion, kept)
