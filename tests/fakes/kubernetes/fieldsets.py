"""Sets of fields, in the form of managedFields: which fields an object has, by the schema of its kind."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any

from .schemas import Schema, inside

Path = tuple[str, ...]
"""Steps: `f:name` a field, `k:{...}` an item by its keys, `v:...` a plain item, and last `.` the item itself."""
_DEFAULTS = {"protocol": "TCP"}
"""Of keys that need not be given."""


def leaves(value: Any, schema: Schema, path: Path = ()) -> dict[Path, Any]:
    """Every field that has a value of its own, with it. What is atomic is one field."""
    if isinstance(value, dict) and value and not schema.atomic:
        found = {}
        for name, inner in value.items():
            found |= leaves(inner, inside(schema, name), (*path, f"f:{name}"))
        return found
    if isinstance(value, list) and schema.keys and all(isinstance(one, dict) for one in value):
        found = {}
        for one in value:
            step = (*path, _step(one, schema.keys))
            found[*step, "."] = True
            found |= leaves(one, schema.items(), step)
        return found
    if isinstance(value, list) and schema.a_set:
        return {(*path, f"v:{json.dumps(one)}"): one for one in value}
    return {path: value}


def _step(item: dict[str, Any], keys: list[str]) -> str:
    told = {key: item.get(key, _DEFAULTS.get(key)) for key in sorted(keys)}
    shown = {key: value for key, value in told.items() if value is not None}
    return f"k:{json.dumps(shown, separators=(',', ':'))}"


def tree(paths: Iterable[Path]) -> dict[str, Any]:
    """As fieldsV1."""
    found: dict[str, Any] = {}
    for path in sorted(paths):
        at = found
        for step in path:
            at = at.setdefault(step, {})
    return found


def paths(fields: dict[str, Any], path: Path = ()) -> set[Path]:
    """Of fieldsV1."""
    found: set[Path] = set()
    for step, inner in fields.items():
        found |= paths(inner, (*path, step)) if inner else {(*path, step)}
    return found


def shown(path: Path) -> str:
    """As conflicts name a field."""
    return "".join(f"[{step[2:]}]" if step[0] in "kv" else f".{step[2:]}" for step in path if step != ".")


def without(value: Any, gone: Iterable[Path]) -> Any:
    """A copy without those fields, and without the objects and lists that are empty then."""
    found = copy.deepcopy(value)
    # Items go as a whole, before their fields are looked for.
    for path in sorted(gone, key=lambda one: (one[-1] != ".", one)):
        _remove(found, path)
    return found


def _remove(value: Any, path: Path) -> None:
    if path[-1] == ".":
        path = path[:-1]
    holders = [value]
    for step in path[:-1]:
        at = _find(holders[-1], step)
        if at is None:
            return
        holders.append(holders[-1][at])
    for step, holder in reversed(list(zip(path, holders, strict=True))):
        at = _find(holder, step)
        if at is None:
            return
        del holder[at]
        if holder:
            return


def _find(holder: Any, step: str) -> Any:
    """The name or the place of what a step leads to; None where it leads nowhere."""
    sign, name = step[0], step[2:]
    if isinstance(holder, dict):
        return name if sign == "f" and name in holder else None
    if not isinstance(holder, list) or sign == "f":
        return None
    wanted = json.loads(name)
    for at, one in enumerate(holder):
        if one == wanted if sign == "v" else _has(one, wanted):
            return at
    return None


def _has(item: dict[str, Any], keys: dict[str, Any]) -> bool:
    return all(item.get(name, _DEFAULTS.get(name)) == value for name, value in keys.items())


def merged(value: Any, applied: Any, schema: Schema) -> Any:
    """What server-side apply makes of a value: all that is applied, and what else was there."""
    if isinstance(applied, dict) and isinstance(value, dict) and not schema.atomic:
        found = dict(value)
        for name, inner in applied.items():
            found[name] = merged(value.get(name), inner, inside(schema, name))
        return found
    if isinstance(applied, list) and isinstance(value, list) and schema.keys:
        rest = {_step(one, schema.keys): one for one in value}
        own = [(_step(one, schema.keys), one) for one in applied]
        items = [merged(rest.get(step), one, schema.items()) for step, one in own]
        return items + [one for step, one in rest.items() if step not in dict(own)]
    if isinstance(applied, list) and isinstance(value, list) and schema.a_set:
        return [*applied, *(one for one in value if one not in applied)]
    return copy.deepcopy(applied)
