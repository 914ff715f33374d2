"""OpenShift's security context constraints: why a pod would not be admitted by one of them.

https://docs.redhat.com/en/documentation/openshift_container_platform, "Managing security context constraints".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .rendering import Object

RESTRICTED = {
    # restricted-v2, as every cluster has it.
    "metadata": {"name": "restricted-v2"},
    "allowPrivilegedContainer": False,
    "allowPrivilegeEscalation": False,
    "allowHostDirVolumePlugin": False,
    "allowHostNetwork": False,
    "allowHostPorts": False,
    "allowHostPID": False,
    "allowHostIPC": False,
    "readOnlyRootFilesystem": False,
    "allowedCapabilities": ["NET_BIND_SERVICE"],
    "requiredDropCapabilities": ["ALL"],
    "runAsUser": {"type": "MustRunAsRange"},
    "fsGroup": {"type": "MustRunAs"},
    "seLinuxContext": {"type": "MustRunAs"},
    "seccompProfiles": ["runtime/default"],
    "volumes": [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ],
}
_HOST = {"hostNetwork": "allowHostNetwork", "hostPID": "allowHostPID", "hostIPC": "allowHostIPC"}


def objections(constraints: Object, spec: Object) -> list[str]:
    """Of a pod as it is written: what is left out is filled in by the constraints themselves."""
    return [*_of_pod(constraints, spec), *(said for one in _containers(spec) for said in _of(constraints, spec, one))]


def _containers(spec: Object) -> list[Object]:
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def _of_pod(constraints: Object, spec: Object) -> Iterator[str]:
    for asked, allowed in _HOST.items():
        if spec.get(asked) and not constraints[allowed]:
            yield asked
    # The token of a service account is a projected volume that the server adds.
    kinds = {next(key for key in volume if key != "name") for volume in spec.get("volumes") or ()}
    kinds |= {"projected"} if spec.get("automountServiceAccountToken", True) else set()
    yield from sorted(f"volumes: {kind}" for kind in kinds - set(constraints["volumes"]))
    if "hostPath" in kinds and not constraints["allowHostDirVolumePlugin"]:
        yield "allowHostDirVolumePlugin"
    whole = spec.get("securityContext") or {}
    if "fsGroup" in whole and constraints["fsGroup"]["type"] == "MustRunAs":
        yield "fsGroup"


def _of(constraints: Object, spec: Object, container: Object) -> Iterator[str]:
    own = container.get("securityContext") or {}
    whole = spec.get("securityContext") or {}

    def effective(key: str) -> Any:
        return own.get(key, whole.get(key))

    if own.get("privileged") and not constraints["allowPrivilegedContainer"]:
        yield "privileged"
    if own.get("allowPrivilegeEscalation") and not constraints.get("allowPrivilegeEscalation", True):
        yield "allowPrivilegeEscalation"
    if constraints["readOnlyRootFilesystem"] and own.get("readOnlyRootFilesystem") is not True:
        yield "readOnlyRootFilesystem"
    added = set((own.get("capabilities") or {}).get("add") or ())
    dropped = set(constraints["requiredDropCapabilities"] or ())
    if added - set(constraints["allowedCapabilities"] or ()):
        yield "capabilities"
    if added & dropped:
        yield "requiredDropCapabilities"
    user, strategy = effective("runAsUser"), constraints["runAsUser"]
    if strategy["type"] == "MustRunAs" and user not in (None, strategy["uid"]):
        yield "runAsUser"
    # The range is each namespace's own.
    if strategy["type"] == "MustRunAsRange" and user is not None:
        yield "runAsUser"
    if effective("seLinuxOptions") and constraints["seLinuxContext"]["type"] != "RunAsAny":
        yield "seLinuxOptions"
    profile = (effective("seccompProfile") or {}).get("type", "RuntimeDefault")
    if profile != "RuntimeDefault" or "runtime/default" not in constraints["seccompProfiles"]:
        yield "seccompProfile"
    if any("hostPort" in port for port in container.get("ports") or ()) and not constraints["allowHostPorts"]:
        yield "hostPort"
