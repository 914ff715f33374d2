"""managedFields: which client wrote which field last."""

from __future__ import annotations

from typing import Any

from . import fieldsets, schemas
from .fieldsets import Path
from .kinds import Kind
from .store import Object

_SYSTEM_METADATA = (
    *("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "name"),
    *("namespace", "resourceVersion", "selfLink", "uid"),
)
APPLY, UPDATE = "Apply", "Update"


def entry(kind: Kind, manager: str, fields: dict[str, Any], time: str, operation: str = UPDATE) -> dict[str, Any]:
    """One of managedFields. `time` is RFC 3339."""
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": kind.api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def owned(kind: Kind, content: Object) -> dict[str, Any]:
    """The fields of an object that its creator manages."""
    return fieldsets.tree(leaves(kind, content))


def leaves(kind: Kind, content: Object, subresource: str = "") -> dict[Path, Any]:
    """The fields that a client may manage, with their values: those of the status, or all others."""
    if subresource == "status":
        kept: Object = {"status": content.get("status") or {}}
    else:
        kept = {name: value for name, value in content.items() if name not in ("kind", "apiVersion", "status")}
        metadata = {name: value for name, value in content["metadata"].items() if name not in _SYSTEM_METADATA}
        kept["metadata"] = metadata
        if not metadata:
            del kept["metadata"]
    return fieldsets.leaves(kept, schemas.of(kind)) if kept else {}


def managed(
    kind: Kind, old: Object, entries: list[dict[str, Any]], new: Object, manager: str, subresource: str, time: str
) -> list[dict[str, Any]]:
    """`entries` after a write: who wrote a field has it alone, and what is gone nobody; the latest write last."""
    before, after = leaves(kind, old, subresource), leaves(kind, new, subresource)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    gone = before.keys() - after.keys()
    kept: list[dict[str, Any]] = []
    mine: set[Path] = set(changed)
    for one in entries:
        fields = fieldsets.paths(one["fieldsV1"])
        if (one["manager"], one["operation"], one.get("subresource", "")) == (manager, UPDATE, subresource):
            mine |= fields - gone
        elif left := fields - changed - gone:
            kept.append(one if left == fields else {**one, "fieldsV1": fieldsets.tree(left)})
    if not mine:
        return kept
    latest = entry(kind, manager, fieldsets.tree(mine), time)
    return [*kept, {**latest, "subresource": subresource} if subresource else latest]
