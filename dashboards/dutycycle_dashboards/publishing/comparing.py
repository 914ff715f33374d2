"""Whether Grafana already has a dashboard as it should be, and where not, what differs."""

from __future__ import annotations

import difflib
import json
from typing import Any

Model = dict[str, Any]

_GRAFANAS = ("id", "version", "iteration", "gnetId")
"""What Grafana keeps of a dashboard beside what was written."""
_OF_A_PANEL = ("pluginVersion",)


def difference(stored: Model, wanted: Model) -> str:
    """What a push would change, as a unified diff of JSON; empty where nothing."""
    left, right = compared(stored, wanted)
    if left == right:
        return ""
    lines = difflib.unified_diff(_lines(left), _lines(right), "in Grafana", "as it would be", n=2, lineterm="")
    return "\n".join(lines)


def compared(stored: Model, wanted: Model) -> tuple[Any, Any]:
    """Both without what says nothing: what is Grafana's own, and what only one of them says, where it is empty."""
    own = set(_GRAFANAS)
    theirs, ours = stored.get("schemaVersion"), wanted.get("schemaVersion")
    if isinstance(theirs, int) and isinstance(ours, int) and theirs > ours:
        # A newer Grafana brings what it saves to the schema of its own.
        own.add("schemaVersion")
    return _both(_without(stored, own), _without(wanted, own))


def _without(model: Model, own: set[str]) -> Model:
    left = {key: value for key, value in model.items() if key not in own}
    marks = left.get("annotations")
    if isinstance(marks, dict) and isinstance(marks.get("list"), list):
        # Grafana adds the marks that people set to what has no such entry.
        kept = [one for one in marks["list"] if not (isinstance(one, dict) and one.get("builtIn"))]
        left["annotations"] = {**marks, "list": kept}
    return left


def _both(stored: Any, wanted: Any) -> tuple[Any, Any]:
    if isinstance(stored, dict) and isinstance(wanted, dict):
        left, right = {}, {}
        for key in stored.keys() | wanted.keys():
            if key in stored and key in wanted:
                left[key], right[key] = _both(stored[key], wanted[key])
            elif key in stored and not _empty(stored[key]) and key not in _OF_A_PANEL:
                left[key] = stored[key]
            elif key in wanted and not _empty(wanted[key]):
                right[key] = wanted[key]
        return left, right
    if isinstance(stored, list) and isinstance(wanted, list) and len(stored) == len(wanted):
        pairs = [_both(*pair) for pair in zip(stored, wanted, strict=True)]
        return [left for left, _ in pairs], [right for _, right in pairs]
    return stored, wanted


def _empty(value: Any) -> bool:
    # Zero is a value.
    return value is None or value is False or value in ("", [], {})


def _lines(model: Any) -> list[str]:
    # ASCII: a terminal obeys what stands in a title.
    return json.dumps(model, indent=2, sort_keys=True).splitlines()
