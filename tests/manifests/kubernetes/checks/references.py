"""What pods name and do not bring along: ConfigMaps, Secrets, claims, service accounts, classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .cluster import Cluster, Pod, title

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


def of_pods(cluster: Cluster) -> Iterator[str]:
    for pod in cluster.pods:
        for one in _in_pod(pod):
            if one.kind == "ServiceAccount" and one.name == "default":
                continue
            found = cluster.find(one.kind, one.name, pod.namespace)
            if found is None:
                if not one.optional and (one.kind, one.name) not in cluster.provided:
                    yield f"{one.path}: there is no {one.kind} {one.name}"
                continue
            held = {*(found.get("data") or {}), *(found.get("binaryData") or {}), *(found.get("stringData") or {})}
            for key in set(one.keys) - held:
                yield f"{one.path}: {one.kind} {one.name} has no key {key}"
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
    used |= {("PriorityClass", "", pod.spec.get("priorityClassName", "")) for pod in cluster.pods}
    for one in cluster.of("ServiceAccount", "PersistentVolumeClaim", "PriorityClass", "ConfigMap", "Secret"):
        metadata = one["metadata"]
        if "grafana_dashboard" in (metadata.get("labels") or {}):
            continue
        if (one["kind"], metadata.get("namespace", ""), metadata["name"]) not in used:
            yield f"{title(one)}: nothing uses it"
