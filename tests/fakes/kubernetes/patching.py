"""The patch formats: merge, strategic merge and JSON patch. None changes what it is given."""

from __future__ import annotations

import copy
from typing import Any

from .schemas import Schema, inside
from .status import Refusal, bad_request, refusal


def merge(value: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects are merged, everything else is replaced."""
    if not isinstance(patch, dict):
        return patch
    found = dict(value) if isinstance(value, dict) else {}
    for name, wanted in patch.items():
        if wanted is None:
            found.pop(name, None)
        else:
            found[name] = merge(found.get(name), wanted)
    return found


def strategic(value: Any, patch: Any, schema: Schema) -> Any:
    """As merge, but lists are merged as the schema says; the directives that begin with `$` are known."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {name: wanted for name, wanted in patch.items() if name != "$patch"}
    if patch.get("$patch") == "delete":
        return None
    found = dict(value) if isinstance(value, dict) else {}
    for name, wanted in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            plain = name.partition("/")[2]
            found[plain] = [one for one in found.get(plain) or [] if one not in wanted]
    for name, wanted in patch.items():
        if name.startswith("$"):
            continue
        if wanted is None:
            found.pop(name, None)
            continue
        found[name] = _field(found.get(name), wanted, inside(schema, name))
        if found[name] is None:
            del found[name]
    for name, order in patch.items():
        plain = name.removeprefix("$setElementOrder/")
        if plain != name and isinstance(found.get(plain), list):
            found[plain] = _ordered(found[plain], order, inside(schema, plain).merge_key)
    if "$retainKeys" in patch:
        found = {name: inner for name, inner in found.items() if name in patch["$retainKeys"]}
    return found


def _field(value: Any, wanted: Any, schema: Schema) -> Any:
    if isinstance(wanted, list) and "merge" in schema.strategies:
        if schema.merge_key:
            return _lists(value or [], wanted, schema)
        return [*(value or []), *(one for one in wanted if one not in (value or []))]
    return strategic(value, wanted, schema)


def _lists(value: list[Any], patch: list[Any], schema: Schema) -> list[Any]:
    key, items = schema.merge_key, schema.items()
    if any(isinstance(one, dict) and set(one) == {"$patch"} and one["$patch"] == "replace" for one in patch):
        return [one for one in patch if "$patch" not in one]
    found = list(value)
    for wanted in patch:
        if not isinstance(wanted, dict) or key not in wanted:
            raise bad_request(f"map: {wanted} does not contain declared merge key: {key}")
        at = next((i for i, one in enumerate(found) if one.get(key) == wanted[key]), None)
        if wanted.get("$patch") == "delete":
            if at is not None:
                del found[at]
        elif at is None:
            found.append(strategic({}, wanted, items))
        else:
            found[at] = strategic(found[at], wanted, items)
    return found


def _ordered(value: list[Any], order: list[Any], key: str) -> list[Any]:
    """In that order; what it does not name keeps its place before what it stood before."""
    wanted = [one.get(key) if isinstance(one, dict) else one for one in order]
    names = [one.get(key) if key and isinstance(one, dict) else one for one in value]
    told = [names.index(name) for name in wanted if name in names]
    left = [index for index in range(len(value)) if index not in told]
    found: list[int] = []
    for index in told:
        while left and left[0] < index:
            found.append(left.pop(0))
        found.append(index)
    return [value[index] for index in (*found, *left)]


def by_operations(value: Any, operations: Any) -> Any:
    """RFC 6902; 422 where a test fails or a path is not there."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    found = {"": copy.deepcopy(value)}
    for operation in operations:
        try:
            _operate(found, operation)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError):
            raise _rejected() from None
    return found[""]


def _rejected() -> Refusal:
    return refusal(422, "Invalid", "the server rejected our request due to an error in our request", {})


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError(pointer)
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")]


def _parent(found: Any, steps: list[str]) -> Any:
    for step in steps[:-1]:
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found


def _read(found: Any, pointer: str) -> Any:
    steps = _steps(pointer)
    holder = _parent(found, steps)
    return holder[int(steps[-1])] if isinstance(holder, list) else holder[steps[-1]]


def _remove(found: Any, pointer: str) -> Any:
    steps = _steps(pointer)
    holder = _parent(found, steps)
    return holder.pop(int(steps[-1]) if isinstance(holder, list) else steps[-1])


def _add(found: Any, pointer: str, value: Any) -> None:
    steps = _steps(pointer)
    holder = _parent(found, steps)
    if not isinstance(holder, list):
        holder[steps[-1]] = value
    elif steps[-1] == "-":
        holder.append(value)
    else:
        holder.insert(int(steps[-1]), value)


def _operate(found: Any, operation: dict[str, Any]) -> None:
    kind, path = operation["op"], operation["path"]
    if kind == "test":
        if _read(found, path) != operation["value"]:
            raise ValueError(path)
    elif kind == "add":
        _add(found, path, operation["value"])
    elif kind == "remove":
        _remove(found, path)
    elif kind == "replace":
        _remove(found, path)
        _add(found, path, operation["value"])
    elif kind == "move":
        _add(found, path, _remove(found, operation["from"]))
    elif kind == "copy":
        _add(found, path, copy.deepcopy(_read(found, operation["from"])))
    else:
        raise ValueError(kind)
