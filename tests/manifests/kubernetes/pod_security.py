"""The Pod Security Standards, as their admission controller judges a pod: what of a level it violates.

https://kubernetes.io/docs/concepts/security/pod-security-standards/, of which Windows' part is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Spec = dict[str, Any]

_CAPABILITIES = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)
_SELINUX = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_SYSCTLS = frozenset(
    [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
    ]
)
_VOLUMES = frozenset(
    [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
        "image",
    ]
)
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def baseline(spec: Spec) -> list[str]:
    """What is violated, by the names that the controller uses."""
    return sorted({*_both(spec), *_baseline_alone(spec)})


def restricted(spec: Spec) -> list[str]:
    """Includes the baseline's, of which it says some in words of its own."""
    return sorted({*_both(spec), *_restricted_alone(spec)})


def _contexts(spec: Spec) -> Iterator[Spec]:
    return (container.get("securityContext") or {} for container in _containers(spec))


def _containers(spec: Spec) -> Iterator[Spec]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def _capabilities(context: Spec, part: str) -> set[str]:
    return set((context.get("capabilities") or {}).get(part) or ())


def _both(spec: Spec) -> Iterator[str]:
    if any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")):
        yield "host namespaces"
    if any(port.get("hostPort") for container in _containers(spec) for port in container.get("ports") or ()):
        yield "hostPort"
    whole = spec.get("securityContext") or {}
    if any(one.get("name") not in _SYSCTLS for one in whole.get("sysctls") or ()):
        yield "forbidden sysctls"
    for context in _contexts(spec):
        if context.get("privileged"):
            yield "privileged"
        if context.get("procMount", "Default") != "Default":
            yield "procMount"
    for context in (whole, *_contexts(spec)):
        selinux = context.get("seLinuxOptions") or {}
        if selinux.get("type", "") not in _SELINUX or selinux.get("user") or selinux.get("role"):
            yield "seLinuxOptions"
        if (context.get("appArmorProfile") or {}).get("type") == "Unconfined":
            yield "forbidden AppArmor profiles"
    for container in _containers(spec):
        lifecycle = (container.get("lifecycle") or {}).values()
        for one in (*(container.get(kind) or {} for kind in _PROBES), *lifecycle):
            if any((one.get(way) or {}).get("host") for way in ("httpGet", "tcpSocket")):
                yield "probe or lifecycle host"


def _baseline_alone(spec: Spec) -> Iterator[str]:
    if any("hostPath" in volume for volume in spec.get("volumes") or ()):
        yield "hostPath volumes"
    whole = spec.get("securityContext") or {}
    for context in _contexts(spec):
        if _capabilities(context, "add") - _CAPABILITIES:
            yield "non-default capabilities"
    for context in (whole, *_contexts(spec)):
        if (context.get("seccompProfile") or {}).get("type") == "Unconfined":
            yield "seccompProfile"


def _restricted_alone(spec: Spec) -> Iterator[str]:
    if any(not _VOLUMES & set(volume) for volume in spec.get("volumes") or ()):
        yield "restricted volume types"
    whole = spec.get("securityContext") or {}
    if whole.get("runAsUser") == 0 or any(context.get("runAsUser") == 0 for context in _contexts(spec)):
        yield "runAsUser=0"
    for context in _contexts(spec):
        if context.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation != false"
        if "ALL" not in _capabilities(context, "drop") or _capabilities(context, "add") - {"NET_BIND_SERVICE"}:
            yield "unrestricted capabilities"
        if not context.get("runAsNonRoot", whole.get("runAsNonRoot")):
            yield "runAsNonRoot != true"
        profile = context.get("seccompProfile") or whole.get("seccompProfile") or {}
        if profile.get("type") not in ("RuntimeDefault", "Localhost"):
            yield "seccompProfile"
    if whole.get("runAsNonRoot") is False:
        yield "runAsNonRoot != true"
    if (whole.get("seccompProfile") or {}).get("type") == "Unconfined":
        yield "seccompProfile"
