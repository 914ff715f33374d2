"""Server-side apply: fields belong to who applies them; others' are not overwritten, unless by force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from . import bodies, fieldsets, managers, schemas, shaping
from .access import User
from .fieldsets import Path
from .forms import Form, Reply
from .kinds import Kind
from .routing import Target
from .status import Refusal, bad_request, invalid, refusal
from .store import Object

if TYPE_CHECKING:
    from .writing import Writer

MEDIA = "application/apply-patch+yaml"


def answer(writer: Writer, kind: Kind, target: Target, user: User, body: bytes, wanted: Form) -> Reply:
    """201 for a new object, 200 for one that is changed or stays as it is."""
    try:
        given = yaml.safe_load(body)
    except yaml.YAMLError:
        given = None
    if not isinstance(given, dict) or not isinstance(given.get("metadata"), dict):
        raise bad_request("error decoding YAML: the object provided is none")
    manager = checked(target.query.get("fieldManager"), given)
    given["metadata"].setdefault("name", target.name)
    content, warnings = bodies.content(kind, given, target)
    time = shaping.time_text(shaping.now())
    old = writer.store.get(kind, target.namespace if kind.namespaced else "", target.name)
    if old is None:
        new, more = writer.made(kind, content, target, user, manager)
        return writer.kept(kind, created(kind, content, new, manager, time), 201, target, wanted, (*warnings, *more))
    new = applied(kind, old.object, content, manager, time, force=target.flag("force"))
    return writer.change(kind, old, new, target, {"Content-Type": MEDIA}, wanted, warnings)


def checked(manager: str | None, given: Object) -> str:
    """Who applies. 422 where nobody says so, 400 where the object says it."""
    if not manager:
        details = {"group": "meta.k8s.io", "kind": "PatchOptions"}
        why = ("fieldManager", "Required value: is required for apply patch")
        raise invalid('PatchOptions.meta.k8s.io ""', details, [why])
    if given["metadata"].get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    return manager


def created(kind: Kind, given: Object, new: Object, manager: str, time: str) -> Object:
    """A new object, of which the manager has what it gave, and nobody what is default."""
    fields = fieldsets.tree(managers.leaves(kind, given))
    entries = [managers.entry(kind, manager, fields, time, managers.APPLY)]
    return {**new, "metadata": {**new["metadata"], "managedFields": entries}}


def applied(kind: Kind, old: Object, given: Object, manager: str, time: str, *, force: bool) -> Object:
    """The object as it is to be, with its managedFields. 409 where others have what is to change."""
    mine, there = managers.leaves(kind, given), managers.leaves(kind, old)
    entries = old["metadata"].get("managedFields") or []
    own = [one for one in entries if _is_of(one, manager)]
    others = [(one, fieldsets.paths(one["fieldsV1"])) for one in entries if not _is_of(one, manager)]
    disputed = {path for path, value in mine.items() if path in there and there[path] != value}
    conflicts = [(one, path) for one, fields in others for path in sorted(disputed & fields)]
    if conflicts and not force:
        raise _conflict(conflicts)
    before = {path for one in own for path in fieldsets.paths(one["fieldsV1"])}
    shared = {path for _, fields in others for path in fields}
    content = fieldsets.merged(_without_status(old), _without_status(given), schemas.of(kind))
    content = fieldsets.without(content, before - mine.keys() - shared)
    latest = managers.entry(kind, manager, fieldsets.tree(mine), time, managers.APPLY)
    if own and before == set(mine):
        latest = own[0]
    kept = [{**one, "fieldsV1": fieldsets.tree(left)} for one, fields in others if (left := fields - disputed)]
    # Those who apply stand before those who update.
    first = [one for one in kept if one["operation"] == managers.APPLY]
    rest = [one for one in kept if one["operation"] != managers.APPLY]
    metadata = {**old["metadata"], **content.get("metadata", {}), "managedFields": [*first, latest, *rest]}
    for name in ("annotations", "labels", "finalizers", "ownerReferences"):
        if name not in content.get("metadata", {}):
            metadata.pop(name, None)
    return {**content, "metadata": metadata}


def _without_status(content: Object) -> Object:
    return {name: value for name, value in content.items() if name not in ("kind", "apiVersion", "status")}


def _is_of(one: dict[str, Any], manager: str) -> bool:
    return (one["manager"], one["operation"], one.get("subresource", "")) == (manager, managers.APPLY, "")


def _conflict(conflicts: list[tuple[dict[str, Any], Path]]) -> Refusal:
    told = [(_called(one), fieldsets.shown(path)) for one, path in conflicts]
    causes = [{"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": at} for who, at in told]
    if len(told) == 1:
        message = f"Apply failed with 1 conflict: conflict with {told[0][0]}: {told[0][1]}"
    else:
        lines = []
        for who in sorted({one for one, _ in told}):
            lines.append(f"conflicts with {who}:")
            lines += [f"- {at}" for one, at in told if one == who]
        message = f"Apply failed with {len(told)} conflicts: " + "\n".join(lines)
    return refusal(409, "Conflict", message, {"causes": causes})


def _called(one: dict[str, Any]) -> str:
    name = f'"{one["manager"]}"'
    if one.get("subresource"):
        name = f'{name} with subresource "{one["subresource"]}"'
    return name if one["operation"] == managers.APPLY else f"{name} using {one['apiVersion']}"
