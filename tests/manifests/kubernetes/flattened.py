"""An object as the set of all that it says, so that what a component changes can be told from what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .checks.cluster import title
from .rendering import Object

_KEYS = ("mountPath", "name", "key", "containerPort")
"""By which entries of a list are told apart: one that is put before another is no change of the other."""

Leaf = tuple[str, str]
"""Where, and what stands there."""


def leaves(objects: list[Object]) -> set[Leaf]:
    return {leaf for one in objects for leaf in _leaves(one, _named(one))}


def _named(one: Object) -> str:
    # What kustomize puts behind a generated name is of its content.
    return title(one).rpartition("-")[0] if one["kind"] == "ConfigMap" else title(one)


def _leaves(value: Any, path: str) -> Iterator[Leaf]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, f"{path} {key}")
    elif isinstance(value, list):
        for part in value:
            key = next((part[name] for name in _KEYS if name in part), None) if isinstance(part, dict) else part
            yield from _leaves(part, f"{path} [{key}]")
    else:
        yield path, repr(value)
