"""The Pod Security Standards: what a pod may not be where a namespace's labels ask for `baseline` or `restricted`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .kinds import Kind
from .status import about, refusal
from .store import Object

_LABEL = "pod-security.kubernetes.io/"
_LEVELS = ("privileged", "baseline", "restricted")
_TEMPLATED = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")
_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
_VOLUMES = ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected")
_VOLUMES += ("secret",)
_ADDED = ("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP")
_ADDED += ("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT")
_SECCOMP = ("RuntimeDefault", "Localhost")


def admitted(kind: Kind, content: Object, labels: dict[str, str]) -> tuple[str, ...]:
    """What to warn of. 403 for a pod that may not be; what makes pods is let through, and its pods are not."""
    if kind.custom:
        return ()
    name = content["metadata"].get("name", "")
    warned = labels.get(f"{_LABEL}warn", "privileged")
    if kind.name == "Pod" and not kind.group:
        enforced = labels.get(f"{_LABEL}enforce", "privileged")
        wrong = violations(content.get("spec") or {}, enforced)
        if wrong:
            message = f'{kind.qualified} "{name}" is forbidden: violates PodSecurity "{enforced}:latest": {wrong}'
            raise refusal(403, "Forbidden", message, about(kind, name))
        spec = content.get("spec") or {}
    elif kind.name in _TEMPLATED:
        spec = ((content.get("spec") or {}).get("template") or {}).get("spec") or {}
    else:
        return ()
    wrong = violations(spec, warned)
    return (f'would violate PodSecurity "{warned}:latest": {wrong}',) if wrong else ()


def violations(spec: dict[str, Any], level: str) -> str:
    """All of them in one line; empty where there is none."""
    if level not in _LEVELS or level == "privileged":
        return ""
    return ", ".join(_violations(spec, restricted=level == "restricted"))


def _violations(spec: dict[str, Any], *, restricted: bool) -> Iterator[str]:
    containers = [*spec.get("initContainers", ()), *spec.get("containers", ()), *spec.get("ephemeralContainers", ())]
    own = {one["name"]: one.get("securityContext") or {} for one in containers}
    shared = [name for name in _NAMESPACES if spec.get(name)]
    if shared:
        yield f"host namespaces ({', '.join(f'{name}=true' for name in shared)})"
    privileged = [name for name, context in own.items() if context.get("privileged")]
    if privileged:
        yield f"privileged ({_several('container', privileged)} must not set securityContext.privileged=true)"
    ports = [one["name"] for one in containers if any(port.get("hostPort") for port in one.get("ports") or ())]
    if ports:
        yield f"hostPort ({_several('container', ports)} uses hostPorts)"
    if restricted:
        yield from _restricted(spec, own)
        return
    hosts = [one["name"] for one in spec.get("volumes") or () if "hostPath" in one]
    if hosts:
        yield f"hostPath volumes ({_several('volume', hosts)})"
    added = [name for name, context in own.items() if set(_added(context)) - set(_ADDED)]
    if added:
        yield f"non-default capabilities ({_several('container', added)} must not add them)"


def _added(context: dict[str, Any]) -> list[str]:
    return list((context.get("capabilities") or {}).get("add") or ())


def _restricted(spec: dict[str, Any], own: dict[str, dict[str, Any]]) -> Iterator[str]:
    whole = spec.get("securityContext") or {}
    escalating = [name for name, context in own.items() if context.get("allowPrivilegeEscalation") is not False]
    if escalating:
        must = "must set securityContext.allowPrivilegeEscalation=false"
        yield f"allowPrivilegeEscalation != false ({_several('container', escalating)} {must})"
    undropped = [name for name, context in own.items() if not _drops(context)]
    if undropped:
        must = 'must set securityContext.capabilities.drop=["ALL"]'
        yield f"unrestricted capabilities ({_several('container', undropped)} {must})"
    volumes = [(one["name"], next((k for k in one if k != "name"), "emptyDir")) for one in spec.get("volumes") or ()]
    bad = [(name, of) for name, of in volumes if of not in _VOLUMES]
    if bad:
        kinds = _several("restricted volume type", sorted({of for _, of in bad}))
        verb = "uses" if len(bad) == 1 else "use"
        yield f"restricted volume types ({_several('volume', [name for name, _ in bad])} {verb} {kinds})"
    false = [name for name, context in own.items() if context.get("runAsNonRoot") is False]
    rooted = [name for name, context in own.items() if not context.get("runAsNonRoot", whole.get("runAsNonRoot"))]
    if false or whole.get("runAsNonRoot") is False:
        who = _setters(false, pod=whole.get("runAsNonRoot") is False)
        yield f"runAsNonRoot != true ({who} must not set securityContext.runAsNonRoot=false)"
    elif rooted:
        yield f"runAsNonRoot != true ({_either(rooted)} must set securityContext.runAsNonRoot=true)"
    zero = [name for name, context in own.items() if context.get("runAsUser") == 0]
    if zero or whole.get("runAsUser") == 0:
        yield f"runAsUser=0 ({_setters(zero, pod=whole.get('runAsUser') == 0)} must not set runAsUser=0)"
    given = (whole.get("seccompProfile") or {}).get("type")
    bare = [name for name, one in own.items() if (one.get("seccompProfile") or {}).get("type", given) not in _SECCOMP]
    if bare:
        must = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
        yield f"seccompProfile ({_either(bare)} {must})"


def _drops(context: dict[str, Any]) -> bool:
    dropped = (context.get("capabilities") or {}).get("drop") or ()
    return "ALL" in dropped and set(_added(context)) <= {"NET_BIND_SERVICE"}


def _several(what: str, names: list[str]) -> str:
    plural = "" if len(names) == 1 else "s"
    return f"{what}{plural} {', '.join(_quoted(name) for name in names)}"


def _setters(names: list[str], *, pod: bool) -> str:
    return " and ".join((*(("pod",) if pod else ()), *((_several("container", names),) if names else ())))


def _either(names: list[str]) -> str:
    return f"pod or {_several('container', names)}"


def _quoted(name: str) -> str:
    return f'"{name}"'
