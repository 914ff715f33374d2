"""Fields that are unknown or given twice: ignored, warned of, or refused, as fieldValidation asks. Of pods alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .kinds import Kind
from .status import bad_request
from .store import Object

_TOP = frozenset(("apiVersion", "kind", "metadata", "spec", "status"))
_SPEC = frozenset(
    (
        *("activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy"),
        *("enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers"),
        *("hostname", "hostnameOverride", "imagePullSecrets", "initContainers", "nodeName", "nodeSelector", "os"),
        *("overhead", "preemptionPolicy", "priority", "priorityClassName", "readinessGates", "resourceClaims"),
        *("resources", "restartPolicy", "runtimeClassName", "schedulerName", "schedulingGates", "securityContext"),
        *("serviceAccount", "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain"),
        *("terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints", "volumes", "workloadRef"),
    )
)


class _Read(dict[str, Any]):
    """An object of a JSON text that knows which of its fields came twice."""

    repeated: tuple[str, ...] = ()


def _pairs(pairs: list[tuple[str, Any]]) -> _Read:
    found = _Read(pairs)
    names = [name for name, _ in pairs]
    found.repeated = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
    return found


def read(body: bytes) -> Any:
    """JSON, with what is wrong with its fields still to be told."""
    return json.loads(body, object_pairs_hook=_pairs)


def checked(kind: Kind, content: Object, mode: str) -> tuple[Object, tuple[str, ...]]:
    """The content without its unknown fields, and what to warn of. 400 where `mode` is Strict and there is anything."""
    found = [f'duplicate field "{name}"' for name in _repeated(content, "")]
    if kind.name != "Pod":
        kept = content
    else:
        spec = content.get("spec")
        unknown = sorted(name for name in content if name not in _TOP)
        inner = sorted(name for name in spec if name not in _SPEC) if isinstance(spec, dict) else []
        found += [f'unknown field "{name}"' for name in (*unknown, *(f"spec.{name}" for name in inner))]
        kept = {name: value for name, value in content.items() if name not in unknown}
        if inner and isinstance(spec, dict):
            kept["spec"] = {name: value for name, value in spec.items() if name not in inner}
    if found and mode == "Strict":
        why = f"strict decoding error: {', '.join(found)}"
        raise bad_request(f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: {why}')
    return kept, () if mode == "Ignore" else tuple(found)


def _repeated(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Read):
        yield from (f"{path}{name}" for name in value.repeated)
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _repeated(inner, f"{path}{name}.")
