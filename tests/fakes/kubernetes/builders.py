"""Objects as clusters have them: pods with GPUs on nodes, and what owns them."""

from __future__ import annotations

import time
from typing import Any

from .shaping import uid as new_uid
from .store import Object

GPU = "nvidia.com/gpu"
# An hour ago: who watches ignores what ended long since.
_STARTED = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))


def owner(content: Object, *, controller: bool = True) -> dict[str, Any]:
    """A reference to an object, for `owners` of another."""
    found: dict[str, Any] = {
        "apiVersion": content["apiVersion"],
        "kind": content["kind"],
        "name": content["metadata"]["name"],
        "uid": content["metadata"]["uid"],
    }
    return {**found, "controller": True, "blockOwnerDeletion": True} if controller else found


def workload(
    kind: str,
    name: str,
    *,
    api_version: str = "batch/v1",
    namespace: str = "ml",
    uid: str | None = None,
    owners: tuple[dict[str, Any], ...] = (),
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    created: str = _STARTED,
) -> Object:
    """Anything that owns pods, or owns what owns them."""
    metadata = _metadata(name, namespace, uid, owners, labels, annotations, created)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec or {}, "status": status or {}}


def pod(
    name: str,
    *,
    namespace: str = "ml",
    uid: str | None = None,
    node: str | None = "gpu-node-a",
    phase: str = "Running",
    gpus: int = 1,
    resource: str = GPU,
    owners: tuple[dict[str, Any], ...] = (),
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    containers: tuple[dict[str, Any], ...] | None = None,
    container_statuses: tuple[dict[str, Any], ...] | None = None,
    claims: tuple[str, ...] = (),
    created: str = _STARTED,
    started: str | None = _STARTED,
    reason: str | None = None,
    message: str | None = None,
    deleted: str | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
) -> Object:
    """A pod as its kubelet has made it. One container `main` with `gpus` of `resource`, unless `containers` are given.

    Times are RFC 3339 texts. `claims` are names of ResourceClaims, `deleted` the deletionTimestamp of a terminating
    pod. `node` None: not scheduled yet (then give phase Pending). `spec` and `status` are merged over the rest.
    """
    made = containers or (container("main", gpus, resource),)
    body: dict[str, Any] = {
        "containers": list(made),
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
    }
    if node is not None:
        body["nodeName"] = node
    if claims:
        body["resourceClaims"] = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    told: dict[str, Any] = {"phase": phase, "qosClass": "BestEffort"}
    if node is not None:
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": created}
        told["conditions"] = [scheduled]
    if started is not None and node is not None:
        told["startTime"] = started
        statuses = container_statuses or tuple(_status(one, phase, started) for one in made)
        told["containerStatuses"] = list(statuses)
    for key, value in (("reason", reason), ("message", message)):
        if value is not None:
            told[key] = value
    metadata = _metadata(name, namespace, uid, owners, labels, annotations, created)
    if deleted is not None:
        metadata |= {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**body, **(spec or {})},
        "status": {**told, **(status or {})},
    }


def container(name: str, gpus: int = 0, resource: str = GPU) -> dict[str, Any]:
    """A container of a pod's specification; without `gpus` it asks for none."""
    amounts = {resource: str(gpus)}
    resources = {"limits": amounts, "requests": dict(amounts)} if gpus else {}
    return {"name": name, "image": "registry.example/train:1", "resources": resources}


def claim(
    name: str,
    *devices: str,
    namespace: str = "ml",
    uid: str | None = None,
    driver: str = "gpu.nvidia.com",
    device_class: str = "gpu.nvidia.com",
    pool: str = "gpu-node-a",
    pods: tuple[Object, ...] = (),
    owners: tuple[dict[str, Any], ...] = (),
    created: str = _STARTED,
) -> Object:
    """A ResourceClaim (resource.k8s.io/v1) of as many devices as are named; allocated and held by `pods` if any are.

    `pool` is the pool of the devices, which a driver names after its node.
    """
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": max(1, len(devices))}
    status: dict[str, Any] = {}
    if pods:
        results = [{"request": "gpu", "driver": driver, "pool": pool, "device": device} for device in devices]
        status["allocation"] = {"devices": {"results": results}}
        status["reservedFor"] = [
            {"resource": "pods", "name": one["metadata"]["name"], "uid": one["metadata"]["uid"]} for one in pods
        ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": _metadata(name, namespace, uid, owners, None, None, created),
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": status,
    }


def node(name: str, gpus: int = 8, *, resource: str = GPU, labels: dict[str, str] | None = None) -> Object:
    amounts = {"cpu": "64", "memory": "500Gi", "pods": "110", resource: str(gpus)}
    metadata = {"name": name, "uid": new_uid(), "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
    status = {"capacity": amounts, "allocatable": dict(amounts)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


def _metadata(
    name: str,
    namespace: str,
    uid: str | None,
    owners: tuple[dict[str, Any], ...],
    labels: dict[str, str] | None,
    annotations: dict[str, str] | None,
    created: str,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": uid or new_uid(),
        "creationTimestamp": created,
    }
    optional = (("labels", labels), ("annotations", annotations), ("ownerReferences", list(owners)))
    return found | {key: value for key, value in optional if value}


def _status(one: dict[str, Any], phase: str, started: str) -> dict[str, Any]:
    states: dict[str, dict[str, Any]] = {
        "Running": {"running": {"startedAt": started}},
        "Succeeded": {
            "terminated": {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": started}
        },
        "Failed": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": started, "finishedAt": started}},
    }
    state = states.get(phase, {"waiting": {"reason": "ContainerCreating"}})
    running = phase == "Running"
    base = {"name": one["name"], "image": one["image"], "imageID": "", "lastState": {}}
    return {**base, "state": state, "ready": running, "started": running, "restartCount": 0}
