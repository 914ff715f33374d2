"""What is wrong with the values of single fields: missing, of the wrong type, or none of those that are allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from . import schemas
from .kinds import Kind
from .schemas import Schema
from .store import Object

Causes = Iterator[tuple[str, str]]

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ALLOWED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("Container", "imagePullPolicy"): ("Always", "IfNotPresent", "Never"),
    ("ContainerPort", "protocol"): _PROTOCOLS,
    ("DaemonSetUpdateStrategy", "type"): ("OnDelete", "RollingUpdate"),
    ("DeploymentStrategy", "type"): ("Recreate", "RollingUpdate"),
    ("NetworkPolicyPort", "protocol"): _PROTOCOLS,
    ("PodSpec", "dnsPolicy"): ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    ("PodSpec", "restartPolicy"): ("Always", "Never", "OnFailure"),
    ("SeccompProfile", "type"): ("Localhost", "RuntimeDefault", "Unconfined"),
    ("ServicePort", "protocol"): _PROTOCOLS,
    ("ServiceSpec", "type"): ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
    ("Toleration", "effect"): ("NoExecute", "NoSchedule", "PreferNoSchedule"),
    ("Toleration", "operator"): ("Equal", "Exists", "Gt", "Lt"),
}
"""The published schemas do not tell which values a text may have; these are of what pods and services are made of."""
_WRITTEN_BY_SERVERS = ("apiVersion", "kind", "metadata", "status")


def broken(kind: Kind, content: Object) -> Causes:
    """Field and message of each."""
    schema = schemas.of(kind)
    own = {name: value for name, value in content.items() if name not in _WRITTEN_BY_SERVERS}
    needed = [name for name in schema.required if name not in _WRITTEN_BY_SERVERS]
    for name in needed:
        if own.get(name) is None:
            yield name, "Required value"
    for name, value in own.items():
        yield from _broken(value, schemas.inside(schema, name), name, custom=kind.custom)


def _broken(value: Any, schema: Schema, path: str, *, custom: bool) -> Causes:
    if value is None:
        return
    wrong = _wrong(value, schema, path, custom=custom)
    if wrong:
        yield path, wrong
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _broken(one, schema.items(), f"{path}[{index}]", custom=custom)
    elif isinstance(value, dict):
        for name in schema.required:
            if value.get(name) in (None, "", []):
                yield f"{path}.{name}", "Required value"
        for name, inner in value.items():
            allowed = _ALLOWED.get((schema.struct, name))
            if allowed is not None and inner and inner not in allowed:
                yield f"{path}.{name}", _unsupported(inner, allowed)
            yield from _broken(inner, schemas.inside(schema, name), f"{path}.{name}", custom=custom)


def _wrong(value: Any, schema: Schema, path: str, *, custom: bool) -> str:
    """Of custom kinds, whose definitions say more than the published schemas of the built-in ones."""
    if not custom or schema.content.get("x-kubernetes-int-or-string"):
        return ""
    kinds = {"string": str, "boolean": bool, "array": list, "object": dict, "integer": int, "number": (int, float)}
    if schema.type in kinds:
        right = isinstance(value, kinds[schema.type])  # type: ignore[arg-type]
        if not right or (isinstance(value, bool) and schema.type in ("integer", "number")):
            shown = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
            told = shown.get(type(value), "object")
            return f'Invalid value: "{told}": {path} in body must be of type {schema.type}: "{told}"'
    allowed = schema.content.get("enum")
    if allowed is not None and value not in allowed:
        return _unsupported(value, [one for one in allowed if one is not None])
    return ""


def _unsupported(value: Any, allowed: Any) -> str:
    return f"Unsupported value: {json.dumps(value)}: supported values: {', '.join(json.dumps(one) for one in allowed)}"
