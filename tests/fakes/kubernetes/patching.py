"""The patch formats: merge, strategic merge and JSON patch. None changes what it is given."""

from __future__ import annotations

import copy
from typing import Any

from .status import Refusal, bad_request, refusal

_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
    "conditions": "type",
    "addresses": "type",
    "podIPs": "ip",
    "ownerReferences": "uid",
}
"""By which field the items of a list are told apart, where a list is merged and not replaced."""


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


def strategic(value: Any, patch: Any) -> Any:
    """As merge, but lists of named things are merged by their key; `$patch: delete` and `replace` are known."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {name: wanted for name, wanted in patch.items() if name != "$patch"}
    found = dict(value) if isinstance(value, dict) else {}
    for name, wanted in patch.items():
        if name.startswith(("$patch", "$setElementOrder/", "$retainKeys")):
            continue
        if name.startswith("$deleteFromPrimitiveList/"):
            plain = name.partition("/")[2]
            found[plain] = [one for one in found.get(plain) or [] if one not in wanted]
        elif wanted is None:
            found.pop(name, None)
        elif isinstance(wanted, list) and name in _MERGE_KEYS:
            found[name] = _lists(found.get(name) or [], wanted, _MERGE_KEYS[name])
        elif isinstance(wanted, list) and name == "finalizers":
            found[name] = [*(found.get(name) or []), *(one for one in wanted if one not in (found.get(name) or []))]
        else:
            found[name] = strategic(found.get(name), wanted)
    return found


def _lists(value: list[Any], patch: list[Any], key: str) -> list[Any]:
    found = list(value)
    for wanted in patch:
        if not isinstance(wanted, dict) or key not in wanted:
            raise bad_request(f"map: {wanted} does not contain declared merge key: {key}")
        at = next((i for i, one in enumerate(found) if one.get(key) == wanted[key]), None)
        if wanted.get("$patch") == "delete":
            if at is not None:
                del found[at]
        elif at is None:
            found.append(strategic({}, wanted))
        else:
            found[at] = strategic(found[at], wanted)
    return found


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
