"""managedFields: which client wrote which field last."""

from __future__ import annotations

from typing import Any

from .kinds import Kind
from .store import Object

_SYSTEM_METADATA = ("creationTimestamp", "generation", "managedFields", "name", "namespace", "resourceVersion", "uid")


def entry(kind: Kind, manager: str, fields: dict[str, Any], time: str) -> dict[str, Any]:
    """One of managedFields. `time` is RFC 3339."""
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": kind.api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def owned(content: Object) -> dict[str, Any]:
    """The fields of an object in the form of managedFields; lists count as one field."""
    found: dict[str, Any] = {}
    for name, value in content.items():
        if name in ("kind", "apiVersion", "status"):
            continue
        if name == "metadata":
            rest = {one: it for one, it in value.items() if one not in _SYSTEM_METADATA}
            if rest:
                found["f:metadata"] = _fields(rest)
        else:
            found[f"f:{name}"] = _fields(value)
    return found


def _fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    return {f"f:{name}": _fields(inner) for name, inner in value.items()}


def managed(kind: Kind, old: Object, new: Object, manager: str, subresource: str, time: str) -> list[dict[str, Any]]:
    """managedFields after a write: one entry for a manager and subresource, the latest write last."""
    entries = old["metadata"].get("managedFields") or []
    mine = [one for one in entries if one["manager"] == manager and one.get("subresource", "") == subresource]
    fields = {"f:status": _fields(new.get("status"))} if subresource == "status" else owned(new)
    latest = entry(kind, manager, fields, time)
    if subresource:
        latest["subresource"] = subresource
    return [*(one for one in entries if one not in mine), latest]
