"""How the tables say what is changed: in which object, where in it, and to what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..checks import Check
from ..checks.cluster import CLUSTER_SCOPED
from ..rendering import Object

Spoil = Callable[[list[Object]], object]

DAEMONS = "DaemonSet dutycycle-exporter"
ALERTER = "Deployment dutycycle-alerter"
POD = "spec template spec"
CONTAINER = f"{POD} containers 0"


@dataclass(frozen=True)
class Spoiled:
    """`said` is a part of what `check` says of it."""

    what: str
    check: Check
    spoil: Spoil
    said: str


def find(objects: list[Object], where: str) -> Object:
    """By "Kind name". What kustomize puts behind a generated name does not count."""
    kind, _, wanted = where.partition(" ")
    names = {one["metadata"].get("name"): one for one in objects if one["kind"] == kind}
    return names.get(wanted) or next(one for name, one in names.items() if name.startswith(f"{wanted}-"))


def _walked(objects: list[Object], where: str, path: str) -> tuple[Any, Any]:
    """What holds the last key of a path, and that key. Keys stand apart by spaces; numbers are places in lists."""
    part: Any = find(objects, where)
    *keys, last = path.split()
    for key in keys:
        part = part[int(key)] if isinstance(part, list) else part.setdefault(key, {})
    return part, int(last) if isinstance(part, list) else last


def put(where: str, path: str, value: object) -> Spoil:
    def spoil(objects: list[Object]) -> None:
        part, key = _walked(objects, where, path)
        part[key] = value

    return spoil


def drop(where: str, path: str) -> Spoil:
    def spoil(objects: list[Object]) -> None:
        part, key = _walked(objects, where, path)
        del part[key]

    return spoil


def more(where: str, path: str, *values: object) -> Spoil:
    """Puts these at the end of a list."""

    def spoil(objects: list[Object]) -> None:
        part, key = _walked(objects, where, path)
        if isinstance(part, dict):
            part.setdefault(key, [])
        part[key] = [*part[key], *values]

    return spoil


def gone(where: str) -> Spoil:
    return lambda objects: objects.remove(find(objects, where))


def new(kind: str, name: str, **content: object) -> Spoil:
    """An object of ours, beside the others."""
    versions = {"Route": "route.openshift.io/v1", "Ingress": "networking.k8s.io/v1", "Pod": "v1", "Job": "batch/v1"}
    versions |= dict.fromkeys(("ServiceMonitor", "Prometheus", "ThanosRuler"), "monitoring.coreos.com/v1")
    versions |= dict.fromkeys(("ClusterRole", "ClusterRoleBinding"), "rbac.authorization.k8s.io/v1")
    versions |= {"PodDisruptionBudget": "policy/v1"}
    made = {
        "apiVersion": versions.get(kind, "v1"),
        "kind": kind,
        "metadata": {"name": name} | ({} if kind in CLUSTER_SCOPED else {"namespace": "dutycycle"}),
        **content,
    }
    return lambda objects: objects.append(made)


def every(*spoils: Spoil) -> Spoil:
    return lambda objects: [spoil(objects) for spoil in spoils]
