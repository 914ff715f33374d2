"""What each pod may do, in every rendering, field by field: a field that is left out is not as it should be."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from .checks.cluster import Cluster, Pod
from .rendering import Object, Variant
from .variants import EVERY, objects

USERS = {"exporter": 0, "alerter": 10001}
"""Who each runs as: the directory of the kubelet's socket is root's alone, hence the exporter."""
MOUNTED = {
    "/var/lib/kubelet/pod-resources": "/var/lib/kubelet/pod-resources",
    "/var/log/containers": "/var/log/containers",
    "/proc": "/host/proc",
    "/sys/fs/cgroup": "/host/sys/fs/cgroup",
}
"""What the exporter reads of its node, and where."""
MOUNTED_MORE = {
    "components/slurm": {"/run/dutycycle/slurm": "/run/dutycycle/slurm"},
    # No file of the node: its path says which GPUs the container is given.
    "components/device-mounts": {"/dev/null": "/var/run/nvidia-container-devices/all"},
}
ADDED = {"components/mig": ["SYS_ADMIN"], "components/profiling-admin": ["SYS_ADMIN"]}
"""Capabilities, by the component that says why."""
WITH_TOKEN = {"exporter": {"components/pod-names"}}
"""The alerter has one always: it watches pods. The exporter has none, but with these."""
OF_THE_NODE = {"components/host-pid"}
"""Components with which the exporter sees the processes of its node."""
WITHOUT_USER = {"components/openshift"}
"""Where the cluster gives each namespace users of its own."""
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def used(variant: Variant) -> set[str]:
    """The components of a rendering. Overlays and engines are of components of the same name, or of the operator's."""
    folder, _, name = variant.kustomization.partition("/")
    found = {f"components/{name}"} if folder == "overlays" else set()
    return found | set(variant.components)


def objections(pod: Pod, components: set[str]) -> list[str]:
    """What is not as it must be in a pod of ours, with these components."""
    which = pod.labels.get("app.kubernetes.io/component", "")
    if which not in USERS:
        return [f"{pod}: a pod of nobody: {which!r}"]
    found = _of_pod(pod.spec, which, components)
    for container in (*(pod.spec.get("initContainers") or ()), *pod.spec["containers"]):
        found += _of_container(container, which, components)
    return found + _of_volumes(pod.spec, which, components)


def _of_pod(spec: Object, which: str, components: set[str]) -> list[str]:
    whole = spec.get("securityContext") or {}
    found = [key for key in ("hostNetwork", "hostIPC", "shareProcessNamespace") if key in spec]
    if spec.get("hostPID", False) is not bool(which == "exporter" and components & OF_THE_NODE):
        found.append("hostPID")
    wanted: dict[str, object] = {"seccompProfile": {"type": "RuntimeDefault"}}
    if which == "exporter":
        wanted |= {"runAsUser": 0, "runAsGroup": 0}
    else:
        wanted |= {"runAsNonRoot": True, "fsGroupChangePolicy": "OnRootMismatch"}
        if not components & WITHOUT_USER:
            wanted |= {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}
    if whole != wanted:
        found.append(f"securityContext: {whole}")
    token = which == "alerter" or bool(components & WITH_TOKEN[which])
    if spec.get("automountServiceAccountToken") is not token:
        found.append("automountServiceAccountToken")
    if spec.get("serviceAccountName") != f"dutycycle-{which}":
        found.append("serviceAccountName")
    if spec.get("enableServiceLinks") is not False:
        found.append("enableServiceLinks")
    # What runs on each GPU node is not to be the first to go. The alerter is one of many.
    if spec.get("priorityClassName") != ("dutycycle-exporter" if which == "exporter" else None):
        found.append("priorityClassName")
    return found


def _of_container(container: Object, which: str, components: set[str]) -> list[str]:
    own = dict(container.get("securityContext") or {})
    added = sorted({one for name in components for one in ADDED.get(name, ())} if which == "exporter" else ())
    # OpenShift's name for a container that may read other processes; test_restricted has it as a violation.
    if which == "exporter" and "components/openshift" in components:
        own.pop("seLinuxOptions", None)
    wanted = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]} | ({"add": added} if added else {}),
        "privileged": False,
        "readOnlyRootFilesystem": True,
    }
    found = [] if own == wanted else [f"securityContext: {own}"]
    name, _, tag = str(container.get("image", "")).partition(":")
    if not tag or tag == "latest" or name != f"dutycycle-{which}":
        found.append(f"image: {container.get('image')}")
    resources = container.get("resources") or {}
    for part in ("requests", "limits"):
        if set(resources.get(part) or ()) != {"cpu", "memory"}:
            found.append(f"resources.{part}")
    found += [probe for probe in _PROBES if "httpGet" not in container.get(probe, {})]
    if any("hostPort" in port for port in container.get("ports") or ()):
        found.append("hostPort")
    return found


def _of_volumes(spec: Object, which: str, components: set[str]) -> list[str]:
    there = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    wanted = {}
    if which == "exporter":
        wanted = MOUNTED | {path: at for name in components for path, at in MOUNTED_MORE.get(name, {}).items()}
    mounts = [mount for container in spec["containers"] for mount in container.get("volumeMounts") or ()]
    of_host = [mount for mount in mounts if mount["name"] in there]
    found = [f"{mount['mountPath']}: not readOnly" for mount in of_host if mount.get("readOnly") is not True]
    # Below a mount that is read only others of the node could lie, which are not: none of these has any.
    if (seen := {there[mount["name"]]: mount["mountPath"] for mount in of_host}) != wanted:
        found.append(f"of the node: {seen}")
    writable = {mount["mountPath"] for mount in mounts if not mount.get("readOnly")}
    allowed = {"/tmp", "/var/lib/dutycycle"} if which == "alerter" else set()
    if writable - allowed:
        found.append(f"may write: {sorted(writable - allowed)}")
    return found


@pytest.mark.parametrize("variant", EVERY, ids=str)
def test_every_pod_may_do_what_it_needs_and_no_more(variant: Variant) -> None:
    pods = Cluster(tuple(objects(variant))).pods
    assert {str(pod): objections(pod, used(variant)) for pod in pods} == {str(pod): [] for pod in pods}
    if variant.kustomization not in ("grafana", "prometheus"):
        assert {pod.labels["app.kubernetes.io/component"] for pod in pods} == set(USERS)


def _put(*path: str | int, to: object) -> Callable[[Object], None]:
    def change(spec: Object) -> None:
        part: Any = spec
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = to

    return change


def _drop(*path: str | int) -> Callable[[Object], None]:
    def change(spec: Object) -> None:
        part: Any = spec
        for key in path[:-1]:
            part = part[key]
        del part[path[-1]]

    return change


_OWN: tuple[str | int, ...] = ("containers", 0, "securityContext")


@pytest.mark.parametrize("which", USERS)
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_put("hostNetwork", to=True), "hostNetwork"),
        (_put("hostIPC", to=True), "hostIPC"),
        (_put("hostPID", to=True), "hostPID"),
        (_put("shareProcessNamespace", to=True), "shareProcessNamespace"),
        (_put("securityContext", "runAsUser", to=1), "securityContext"),
        (_drop("securityContext", "runAsUser"), "securityContext"),
        (_drop("securityContext", "seccompProfile"), "securityContext"),
        (_drop("automountServiceAccountToken"), "automountServiceAccountToken"),
        (_put("serviceAccountName", to="default"), "serviceAccountName"),
        (_drop("enableServiceLinks"), "enableServiceLinks"),
        (_put("priorityClassName", to="system-node-critical"), "priorityClassName"),
        (_drop(*_OWN), "securityContext"),
        (_put(*_OWN, "privileged", to=True), "securityContext"),
        (_drop(*_OWN, "readOnlyRootFilesystem"), "securityContext"),
        (_drop(*_OWN, "allowPrivilegeEscalation"), "securityContext"),
        (_drop(*_OWN, "capabilities"), "securityContext"),
        (_put(*_OWN, "capabilities", "add", to=["SYS_ADMIN"]), "securityContext"),
        (_put(*_OWN, "runAsUser", to=0), "securityContext"),
        (_put("containers", 0, "image", to="dutycycle-exporter:latest"), "image"),
        (_put("containers", 0, "image", to="dutycycle-alerter"), "image"),
        (_drop("containers", 0, "resources", "limits"), "resources.limits"),
        (_drop("containers", 0, "resources", "requests", "memory"), "resources.requests"),
        (_drop("containers", 0, "livenessProbe"), "livenessProbe"),
        (_drop("containers", 0, "startupProbe"), "startupProbe"),
        (_drop("containers", 0, "readinessProbe"), "readinessProbe"),
        (_put("containers", 0, "ports", 0, "hostPort", to=9836), "hostPort"),
        (_drop("containers", 0, "volumeMounts", 0, "readOnly"), "may write"),
        (_put("volumes", 0, to={"name": "config", "hostPath": {"path": "/etc"}}), "of the node"),
        (_put("initContainers", to=[{"name": "x", "image": "busybox"}]), "image: busybox"),
    ],
)
def test_a_field_that_is_not_as_it_should_be_is_found(which: str, spoil: Callable[[Object], None], said: str) -> None:
    (pod,) = (one for one in Cluster(tuple(objects(Variant("base")))).pods if which in one.labels.values())
    spec = copy.deepcopy(pod.spec)
    spoil(spec)
    if spec["volumes"][0]["name"] == "config" and which == "exporter":
        spec["containers"][0]["volumeMounts"][0]["name"] = "config"
    assert [one for one in objections(Pod(pod.owner, pod.path, pod.metadata, spec), set()) if said in one]
