"""The published schemas of the kinds: which fields there are, of which types, and how lists of them are merged."""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .kinds import Kind

_DIRECTORY = "kubernetes-json-schema/v1.36.0-local"
"""Of the version that the server says it is."""
_REFERENCE = "#/$defs/"
METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


@functools.cache
def definitions() -> dict[str, dict[str, Any]]:
    """All of them, by their full names."""
    text = (importlib.resources.files("kubernetes_validate") / _DIRECTORY / "_definitions.json").read_text()
    found: dict[str, dict[str, Any]] = json.loads(text)["$defs"]
    return found


@functools.cache
def _names() -> dict[tuple[str, str, str], str]:
    return {
        (one["group"], one["version"], one["kind"]): name
        for name, content in definitions().items()
        for one in content.get("x-kubernetes-group-version-kind", ())
    }


def name_of(kind: Kind) -> str | None:
    """The full name of a built-in kind's definition."""
    return None if kind.custom else _names().get((kind.group, kind.version, kind.name))


def of(kind: Kind) -> Schema:
    """What objects of a kind are like; a custom kind without a schema may be anything below its metadata."""
    name = name_of(kind)
    if name is not None:
        return reference(name)
    given = kind.schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    string = {"type": "string"}
    own = {"apiVersion": string, "kind": string, "metadata": {"$ref": f"{_REFERENCE}{METADATA}"}}
    return Schema({**given, "properties": {**given.get("properties", {}), **own}}, kind.name)


def reference(name: str) -> Schema:
    return Schema(definitions()[name], name)


@dataclass(frozen=True, slots=True)
class Schema:
    """What a value is like. `name` is that of its definition, where it has one of its own."""

    content: Mapping[str, Any]
    name: str = ""

    @property
    def struct(self) -> str:
        """As Go calls it: `PodSpec`."""
        return self.name.rpartition(".")[2]

    @property
    def fields(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.content.get("properties") or {}
        return found

    @property
    def open(self) -> bool:
        """Whether every field is taken, whatever it is: nothing is known of it."""
        if self.content.get("x-kubernetes-preserve-unknown-fields"):
            return True
        return not self.fields and not isinstance(self.content.get("additionalProperties"), dict)

    def field(self, name: str) -> Schema | None:
        """Of a field of an object, or of a value of a map; None where there is no such field."""
        if name in self.fields:
            return _resolved(self.fields[name])
        more = self.content.get("additionalProperties")
        return _resolved(more) if isinstance(more, dict) else None

    def items(self) -> Schema:
        """Of the items of a list."""
        return _resolved(self.content.get("items") or {})

    @property
    def type(self) -> str:
        """`string`, `integer`, `number`, `boolean`, `array`, `object`; empty where it may be several."""
        told = self.content.get("type", "")
        if isinstance(told, list):
            told = next((one for one in told if one != "null"), "")
        return str(told)

    @property
    def required(self) -> list[str]:
        return list(self.content.get("required") or ())

    @property
    def strategies(self) -> list[str]:
        """How a strategic merge treats it: `merge`, `retainKeys`, `replace`."""
        return str(self.content.get("x-kubernetes-patch-strategy", "")).split(",")

    @property
    def merge_key(self) -> str:
        """By which field a strategic merge tells the items of a list apart."""
        return str(self.content.get("x-kubernetes-patch-merge-key", ""))

    @property
    def keys(self) -> list[str]:
        """By which fields server-side apply tells the items of a list apart."""
        of_map = self.content.get("x-kubernetes-list-type") == "map"
        return list(self.content.get("x-kubernetes-list-map-keys") or ()) if of_map else []

    @property
    def a_set(self) -> bool:
        return bool(self.content.get("x-kubernetes-list-type") == "set")

    @property
    def atomic(self) -> bool:
        """Whether server-side apply treats an object as one value; lists without keys it always does."""
        return bool(self.content.get("x-kubernetes-map-type") == "atomic")

    @property
    def quantity(self) -> bool:
        return self.struct == "Quantity"


_ANYTHING = Schema({})


def _resolved(content: Mapping[str, Any]) -> Schema:
    to = content.get("$ref", "")
    if not to:
        return Schema(content)
    name = to.removeprefix(_REFERENCE)
    # What stands beside a reference is of the field and not of the type: how its lists are merged.
    return Schema({**definitions()[name], **content}, name)


def inside(schema: Schema | None, name: str) -> Schema:
    """A field of something that may be unknown itself; then that may be anything too."""
    found = schema.field(name) if schema is not None else None
    return found or _ANYTHING


def reachable(name: str) -> Iterator[str]:
    """The names of a definition and of all that it is made of."""
    seen: set[str] = set()
    left = [name]
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        yield one
        left += _references(definitions()[one])


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"].removeprefix(_REFERENCE)] if isinstance(value.get("$ref"), str) else []
        return own + [name for inner in value.values() for name in _references(inner)]
    return [name for inner in value for name in _references(inner)] if isinstance(value, list) else []
