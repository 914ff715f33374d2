"""A pod as a whole: its containers' names, who it runs as, what it takes of its host, where it may run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from .cluster import Cluster, Pod, matches
from .identity import is_label_key, is_label_name, is_label_value

_CONTAINER = "kubectl.kubernetes.io/default-container"
_DEVICES = "nvidia.cdi.k8s.io/container."
_SCRAPED = "prometheus.io/port"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def containers_are_named(cluster: Cluster) -> Iterator[str]:
    for pod in cluster.pods:
        if not pod.spec.get("containers"):
            yield f"{pod}.containers: there is none"
        for path, container in pod.containers():
            if not is_label_name(container.get("name") or ""):
                yield f"{path}.name: cannot be {container.get('name')!r}"
            if not str(container.get("image") or "").strip():
                yield f"{path}.image: is missing"
        for called, count in Counter(container.get("name") for _, container in pod.containers()).items():
            if count > 1:
                yield f"{pod}.containers: {count} are named {called}"
        if pod.spec.get("terminationGracePeriodSeconds", 30) < 0:
            yield f"{pod}.terminationGracePeriodSeconds: is negative"


def security(cluster: Cluster) -> Iterator[str]:
    """What contradicts itself: the server refuses some of it, the kubelet the rest."""
    for pod in cluster.pods:
        whole = pod.spec.get("securityContext") or {}
        for path, container in pod.containers():
            own = container.get("securityContext") or {}
            effective = {key: own.get(key, whole.get(key)) for key in ("runAsUser", "runAsNonRoot", "seccompProfile")}
            if effective["runAsNonRoot"] and effective["runAsUser"] == 0:
                yield f"{path}.securityContext: runAsNonRoot, with runAsUser 0"
            added = {_bare(one) for one in (own.get("capabilities") or {}).get("add") or ()}
            if own.get("allowPrivilegeEscalation") is False and own.get("privileged"):
                yield f"{path}.securityContext: privileged, without allowPrivilegeEscalation"
            if own.get("allowPrivilegeEscalation") is False and "CAP_SYS_ADMIN" in (
                (own.get("capabilities") or {}).get("add") or ()
            ):
                yield f"{path}.securityContext: CAP_SYS_ADMIN, without allowPrivilegeEscalation"
            if "ALL" not in added and added & {_bare(one) for one in (own.get("capabilities") or {}).get("drop") or ()}:
                yield f"{path}.securityContext.capabilities: added and dropped at once"
            profile = effective["seccompProfile"] or {}
            if (profile.get("type") == "Localhost") != ("localhostProfile" in profile):
                yield f"{path}.securityContext.seccompProfile: localhostProfile goes with Localhost alone"
        for context in (whole, *(one.get("securityContext") or {} for _, one in pod.containers())):
            for key in ("runAsUser", "runAsGroup", "fsGroup"):
                if not 0 <= context.get(key, 0) <= 2**31 - 1:
                    yield f"{pod}: securityContext.{key} is out of range"


def _bare(capability: str) -> str:
    return capability.upper().removeprefix("CAP_")


def host(cluster: Cluster) -> Iterator[str]:
    for pod in cluster.pods:
        if pod.spec.get("hostPID") and pod.spec.get("shareProcessNamespace"):
            yield f"{pod}: shareProcessNamespace, with hostPID"
        for path, container in pod.containers():
            for port in container.get("ports") or ():
                if pod.spec.get("hostNetwork") and port.get("hostPort", port["containerPort"]) != port["containerPort"]:
                    yield f"{path}.ports: in the host's network hostPort is containerPort"


def tolerations(cluster: Cluster) -> Iterator[str]:
    for pod in cluster.pods:
        for index, one in enumerate(pod.spec.get("tolerations") or ()):
            where = f"{pod}.tolerations[{index}]"
            operator = one.get("operator", "Equal")
            if operator not in ("Equal", "Exists"):
                yield f"{where}: operator is {operator}"
            if operator == "Exists" and one.get("value"):
                yield f"{where}: a value, with Exists"
            if not one.get("key") and operator != "Exists":
                yield f"{where}: no key, without Exists"
            if one.get("key") and not is_label_key(one["key"]):
                yield f"{where}: key {one['key']!r}"
            if one.get("effect") not in (None, *_EFFECTS):
                yield f"{where}: effect is {one['effect']}"
            if "tolerationSeconds" in one and one.get("effect") != "NoExecute":
                yield f"{where}: tolerationSeconds goes with NoExecute alone"


def placement(cluster: Cluster) -> Iterator[str]:
    for pod in cluster.pods:
        for key, value in (pod.spec.get("nodeSelector") or {}).items():
            if not is_label_key(key) or not is_label_value(value):
                yield f"{pod}.nodeSelector: {key}: {value!r}"
        affinity = pod.spec.get("affinity") or {}
        yield from _nodes(pod, affinity.get("nodeAffinity") or {})
        for kind in ("podAffinity", "podAntiAffinity"):
            yield from _neighbours(pod, affinity.get(kind) or {}, kind)
        for one in pod.spec.get("topologySpreadConstraints") or ():
            if one.get("maxSkew", 0) < 1 or not is_label_key(one.get("topologyKey") or ""):
                yield f"{pod}.topologySpreadConstraints: maxSkew and topologyKey"
            if not matches(one.get("labelSelector") or {}, pod.labels):
                yield f"{pod}.topologySpreadConstraints: labelSelector does not match the pod itself"
            if one.get("whenUnsatisfiable") not in ("DoNotSchedule", "ScheduleAnyway"):
                yield f"{pod}.topologySpreadConstraints: whenUnsatisfiable is {one.get('whenUnsatisfiable')}"


def _nodes(pod: Pod, affinity: dict[str, Any]) -> Iterator[str]:
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    if affinity.get("requiredDuringSchedulingIgnoredDuringExecution") is not None and not required.get(
        "nodeSelectorTerms"
    ):
        yield f"{pod}: node affinity without terms"
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    for term in (*(required.get("nodeSelectorTerms") or ()), *(one["preference"] for one in preferred)):
        if not (term.get("matchExpressions") or term.get("matchFields")):
            yield f"{pod}: an empty term of node affinity matches no node"
        for one in term.get("matchExpressions") or ():
            values = one.get("values") or []
            if not is_label_key(one["key"]):
                yield f"{pod}: node affinity: key {one['key']!r}"
            if {"In": not values, "NotIn": not values, "Gt": len(values) != 1, "Lt": len(values) != 1}.get(
                one["operator"], bool(values)
            ) or one["operator"] not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
                yield f"{pod}: node affinity: {one['key']} {one['operator']} {values}"
            if any(not is_label_value(str(value)) for value in values):
                yield f"{pod}: node affinity: {one['key']}: values {values}"
    for one in preferred:
        if not 1 <= one.get("weight", 0) <= 100:
            yield f"{pod}: node affinity: weight {one.get('weight')}"


def _neighbours(pod: Pod, affinity: dict[str, Any], kind: str) -> Iterator[str]:
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    for one in preferred:
        if not 1 <= one.get("weight", 0) <= 100:
            yield f"{pod}: {kind}: weight {one.get('weight')}"
    for term in (*required, *(one["podAffinityTerm"] for one in preferred)):
        if not is_label_key(term.get("topologyKey") or ""):
            yield f"{pod}: {kind}: topologyKey is {term.get('topologyKey')!r}"
        if kind == "podAntiAffinity" and not matches(term.get("labelSelector") or {}, pod.labels):
            yield f"{pod}: {kind}: labelSelector does not match the pod itself"


def annotations(cluster: Cluster) -> Iterator[str]:
    """Those that name a container or a port, whoever reads them: kubectl, NVIDIA's NRI plugin, Prometheus."""
    for pod in cluster.pods:
        there = {one.get("name") for _, one in pod.containers()}
        for key, value in (pod.metadata.get("annotations") or {}).items():
            called = value if key == _CONTAINER else key.removeprefix(_DEVICES) if key.startswith(_DEVICES) else None
            if called is not None and called not in there:
                yield f"{pod}: {key}: there is no container {called}"
            if key == _SCRAPED and value not in {str(one.get("containerPort")) for one in pod.ports()}:
                yield f"{pod}: {key}: there is no port {value}"
