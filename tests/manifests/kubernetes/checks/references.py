"""What pods, and what an operator makes pods of, name: ConfigMaps, Secrets, claims, service accounts, classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .cluster import Cluster, Object, Pod, group, namespace, title, walk

_OF_OPERATORS = "monitoring.coreos.com"
"""Whose objects name accounts, Secrets and ConfigMaps of their own namespace, as pods do."""
_SYSTEM_PRIORITIES = ("system-node-critical", "system-cluster-critical")


@dataclass(frozen=True)
class Reference:
    """`keys` are those that must be in it; `optional` is what the pod itself says."""

    path: str
    kind: str
    name: str
    optional: bool = False
    keys: tuple[str, ...] = ()


def _in_pod(pod: Pod) -> Iterator[Reference]:
    spec = pod.spec
    yield Reference(f"{pod}.serviceAccountName", "ServiceAccount", spec.get("serviceAccountName", "default"))
    for one in spec.get("imagePullSecrets") or ():
        # The kubelet goes on without it.
        yield Reference(f"{pod}.imagePullSecrets", "Secret", one["name"], optional=True)
    for volume in spec.get("volumes") or ():
        yield from _in_volume(f"{pod}.volumes[{volume.get('name')}]", volume)
    for path, container in pod.containers():
        for one in container.get("env") or ():
            source = one.get("valueFrom") or {}
            for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
                if key in source:
                    named = source[key]
                    optional = bool(named.get("optional"))
                    yield Reference(f"{path}.env[{one['name']}]", kind, named["name"], optional, (named["key"],))
        for one in container.get("envFrom") or ():
            for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                if key in one:
                    yield Reference(f"{path}.envFrom", kind, one[key]["name"], bool(one[key].get("optional")))


def _in_volume(path: str, volume: dict[str, Any]) -> Iterator[Reference]:
    if claim := volume.get("persistentVolumeClaim"):
        yield Reference(path, "PersistentVolumeClaim", claim["claimName"])
    sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
    for source in sources:
        for key, kind, name in (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")):
            if named := source.get(key):
                keys = tuple(item["key"] for item in named.get("items") or ())
                called = named.get(name) or named.get("name") or ""
                yield Reference(path, kind, called, bool(named.get("optional")), keys)


def _in_custom(one: Object) -> Iterator[Reference]:
    """An account; names of Secrets and ConfigMaps to mount; and keys of them, in whichever field they stand."""
    spec = one.get("spec") or {}
    if "serviceAccountName" in spec:
        yield Reference(f"{title(one)}: spec.serviceAccountName", "ServiceAccount", spec["serviceAccountName"])
    for field, kind in (("secrets", "Secret"), ("configMaps", "ConfigMap")):
        for name in spec.get(field) or ():
            yield Reference(f"{title(one)}: spec.{field}", kind, name)
    for path, value in walk(spec, "spec"):
        if isinstance(value, dict) and {"name", "key"} <= set(value) <= {"name", "key", "optional"}:
            kind = "ConfigMap" if path.endswith(".configMap") else "Secret"
            yield Reference(f"{title(one)}: {path}", kind, value["name"], bool(value.get("optional")), (value["key"],))


def _missing(cluster: Cluster, one: Reference, within: str) -> Iterator[str]:
    if one.kind == "ServiceAccount" and one.name == "default":
        return
    found = cluster.find(one.kind, one.name, within)
    if found is None:
        if not one.optional and (one.kind, one.name) not in cluster.provided:
            yield f"{one.path}: there is no {one.kind} {one.name}"
        return
    held = {*(found.get("data") or {}), *(found.get("binaryData") or {}), *(found.get("stringData") or {})}
    for key in set(one.keys) - held:
        yield f"{one.path}: {one.kind} {one.name} has no key {key}"


def _custom(cluster: Cluster) -> Iterator[Object]:
    return (one for one in cluster.objects if group(one) == _OF_OPERATORS)


def of_custom(cluster: Cluster) -> Iterator[str]:
    for one in _custom(cluster):
        for reference in _in_custom(one):
            yield from _missing(cluster, reference, namespace(one))


def of_pods(cluster: Cluster) -> Iterator[str]:
    for pod in cluster.pods:
        for one in _in_pod(pod):
            yield from _missing(cluster, one, pod.namespace)
        priority = pod.spec.get("priorityClassName")
        if priority and priority not in _SYSTEM_PRIORITIES and not cluster.has("PriorityClass", priority):
            yield f"{pod}.priorityClassName: there is no PriorityClass {priority}"
        runtime = pod.spec.get("runtimeClassName")
        if runtime and not cluster.has("RuntimeClass", runtime):
            yield f"{pod}.runtimeClassName: there is no RuntimeClass {runtime}"


def of_claims(cluster: Cluster) -> Iterator[str]:
    for one in cluster.of("PersistentVolumeClaim"):
        if not one["spec"].get("accessModes"):
            yield f"{title(one)}: spec.accessModes is empty"
    for one in cluster.of("PriorityClass"):
        if one["metadata"]["name"].startswith("system-"):
            yield f"{title(one)}: system- is for Kubernetes' own"
        if not -(2**31) <= one.get("value", 0) <= 10**9:
            yield f"{title(one)}: value is out of range"


def unused(cluster: Cluster) -> Iterator[str]:
    """What nothing names any more: left over, or the name is misspelled where it is meant."""
    used = {(one.kind, pod.namespace, one.name) for pod in cluster.pods for one in _in_pod(pod)}
    used |= {(named.kind, namespace(one), named.name) for one in _custom(cluster) for named in _in_custom(one)}
    used |= {("PriorityClass", "", pod.spec.get("priorityClassName", "")) for pod in cluster.pods}
    for one in cluster.of("ServiceAccount", "PersistentVolumeClaim", "PriorityClass", "ConfigMap", "Secret"):
        metadata = one["metadata"]
        if "grafana_dashboard" in (metadata.get("labels") or {}):
            continue
        if (one["kind"], metadata.get("namespace", ""), metadata["name"]) not in used:
            yield f"{title(one)}: nothing uses it"
