"""Where a pod may run: nodeSelector, required node affinity, tolerations against a node's labels and taints. Pure.

Tolerations that the DaemonSet controller would add are not counted: what must be everywhere says so itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .checks.cluster import matches

_KEEPS_OFF = ("NoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True)
class Node:
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()


def stays(spec: Mapping[str, Any], node: Node) -> bool:
    """Whether a pod is scheduled there and is not evicted by and by."""
    selector: Mapping[str, str] = spec.get("nodeSelector") or {}
    if any(node.labels.get(key) != value for key, value in selector.items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    if required is not None and not any(_suits(term, node.labels) for term in required.get("nodeSelectorTerms") or ()):
        return False
    tolerations = spec.get("tolerations") or ()
    taints = (taint for taint in node.taints if taint.effect in _KEEPS_OFF)
    return all(any(_tolerates(one, taint) for one in tolerations) for taint in taints)


def _suits(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """All expressions of a term; an empty one suits no node. Fields (matchFields) are not known here."""
    assert set(term) <= {"matchExpressions"}
    expressions = term.get("matchExpressions") or ()
    return bool(expressions) and all(_holds(one, labels) for one in expressions)


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator = expression["key"], expression["operator"]
    if operator not in ("Gt", "Lt"):
        return matches({"matchExpressions": [expression]}, labels)
    if key not in labels or not labels[key].lstrip("-").isdigit():
        return False
    given, wanted = int(labels[key]), int(expression["values"][0])
    return given > wanted if operator == "Gt" else given < wanted


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    if toleration.get("effect") not in (None, "", taint.effect) or "tolerationSeconds" in toleration:
        return False
    if toleration.get("key") not in (None, "", taint.key):
        return False
    return toleration.get("operator", "Equal") == "Exists" or toleration.get("value", "") == taint.value


def apart(spec: Mapping[str, Any], labels: Mapping[str, str], topology: str) -> bool:
    """Whether two pods with these labels are never in the same place: on one node, in one zone, as `topology` says."""
    terms = ((spec.get("affinity") or {}).get("podAntiAffinity") or {}).get(_REQUIRED) or ()
    return any(
        one["topologyKey"] == topology and "labelSelector" in one and matches(one["labelSelector"], labels)
        for one in terms
    )
