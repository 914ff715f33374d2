"""The objects that are applied together, and how the checks find their way among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

Object = dict[str, Any]

CLUSTER_SCOPED = frozenset(
    {
        "Namespace",
        "ClusterRole",
        "ClusterRoleBinding",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "PersistentVolume",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "SecurityContextConstraints",
        "CustomResourceDefinition",
    }
)
WORKLOADS = ("Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "Job")


@dataclass(frozen=True)
class Pod:
    """A pod, or the template of one. `owner` is the object that it stands in, `path` is where."""

    owner: Object
    path: str
    metadata: Object
    spec: Object

    @property
    def namespace(self) -> str:
        return namespace(self.owner)

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.get("labels") or {}

    def containers(self) -> Iterator[tuple[str, Object]]:
        """Each with its path, those that come first (init containers) among them."""
        for kind in ("initContainers", "containers"):
            for index, container in enumerate(self.spec.get(kind) or ()):
                yield f"{title(self.owner)}: {self.path}.{kind}[{index}]", container

    def ports(self) -> Iterator[Object]:
        for _, container in self.containers():
            yield from container.get("ports") or ()

    def has_port(self, port: object) -> bool:
        """By its name, or by its number."""
        return any(port in (one.get("name"), one.get("containerPort")) for one in self.ports())

    def __str__(self) -> str:
        return f"{title(self.owner)}: {self.path}"


@dataclass(frozen=True)
class Cluster:
    """What is applied together. `provided` is what was there before: (kind, name)."""

    objects: tuple[Object, ...]
    provided: frozenset[tuple[str, str]] = field(default=frozenset())

    def of(self, *kinds: str) -> Iterator[Object]:
        return (one for one in self.objects if one["kind"] in kinds)

    def find(self, kind: str, name: str, within: str = "") -> Object | None:
        """`within` is its namespace, empty for kinds that have none."""
        return self._index.get((kind, within, name))

    def has(self, kind: str, name: str, within: str = "") -> bool:
        return (kind, within, name) in self._index or (kind, name) in self.provided

    @cached_property
    def _index(self) -> dict[tuple[str, str, str], Object]:
        return {(one["kind"], namespace(one), name(one)): one for one in self.objects}

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """Of every workload, and those that stand alone."""
        found = []
        for one in self.objects:
            spec = one.get("spec") or {}
            if one["kind"] == "Pod":
                found.append(Pod(one, "spec", one["metadata"], spec))
            elif one["kind"] in (*WORKLOADS, "CronJob"):
                job = (spec.get("jobTemplate") or {}).get("spec") or {} if one["kind"] == "CronJob" else spec
                path = "spec.jobTemplate.spec.template.spec" if one["kind"] == "CronJob" else "spec.template.spec"
                template = job.get("template") or {}
                found.append(Pod(one, path, template.get("metadata") or {}, template.get("spec") or {}))
        return tuple(found)

    def selected(self, selector: Mapping[str, Any] | None, within: str) -> list[Pod]:
        """Pods of one namespace. An empty selector takes all of them, none at all takes none."""
        if selector is None:
            return []
        return [pod for pod in self.pods if pod.namespace == within and matches(selector, pod.labels)]


def name(one: Object) -> str:
    found: str = one["metadata"].get("name", "")
    return found


def namespace(one: Object) -> str:
    found: str = one["metadata"].get("namespace", "")
    return found


def title(one: Object) -> str:
    within = namespace(one)
    return f"{one['kind']} {within}/{name(one)}" if within else f"{one['kind']} {name(one)}"


def group(one: Object) -> str:
    """Empty for the core group."""
    found, slash, _ = str(one["apiVersion"]).rpartition("/")
    return found if slash else ""


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """A LabelSelector: matchLabels and matchExpressions, all of them."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    return (key in labels) == (operator == "Exists")


def walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in an object, with its path."""
    yield path, value
    if isinstance(value, dict):
        for key, part in value.items():
            yield from walk(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from walk(part, f"{path}[{index}]")
