"""What a request sends, as the types of its kind take it: 400 where they cannot, amounts in their one form."""

from __future__ import annotations

import re
from typing import Any

from . import quantities, schemas
from .kinds import Kind
from .schemas import Schema
from .status import bad_request
from .store import Object

_TIMES = ("acquireTime", "renewTime")
_MICRO_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
_PLAIN = {"string": "string", "boolean": "bool", "number": "float64"}


def typed(kind: Kind, content: Object) -> Object:
    """The content with its amounts as they are kept. Custom kinds are looked at once they are complete."""
    if kind.custom:
        return content
    if kind.name == "Lease":
        _times(kind, content.get("spec") or {})
    found: Object = _typed(kind, content, schemas.of(kind), "", "")
    return found


def _times(kind: Kind, spec: dict[str, Any]) -> None:
    for name in _TIMES:
        value = spec.get(name)
        if value is not None and not _MICRO_TIME.match(str(value)):
            layout = "2006-01-02T15:04:05.000000Z07:00"
            raise _unhandled(kind, f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"')


def _typed(kind: Kind, value: Any, schema: Schema, struct: str, path: str) -> Any:
    if value is None:
        return None
    if schema.quantity:
        if not re.match(quantities.PATTERN, str(value)):
            raise _unhandled(kind, f"quantities must match the regular expression '{quantities.PATTERN}'")
        return quantities.canonical(value)
    if not _fits(value, schema):
        field = f"Go struct field {struct}.{path} of type {_go_type(schema)}"
        raise _unhandled(kind, f"json: cannot unmarshal {_shown(value, schema)} into {field}")
    if isinstance(value, list):
        items = schema.items()
        return [_typed(kind, one, items, struct, path) for one in value]
    if not isinstance(value, dict):
        return value
    own = schema.struct if schema.fields else struct
    found = {}
    for name, inner in value.items():
        at = (f"{path}.{name}" if path else name) if schema.fields else path
        found[name] = _typed(kind, inner, schemas.inside(schema, name), own, at)
    return found


def _fits(value: Any, schema: Schema) -> bool:
    if schema.type == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if schema.type == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    wanted = {"string": str, "boolean": bool, "array": list, "object": dict}.get(schema.type)
    return wanted is None or isinstance(value, wanted)


def _shown(value: Any, schema: Schema) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return f"number {value}" if schema.type == "integer" else "number"
    return {str: "string", list: "array"}.get(type(value), "object")


def _go_type(schema: Schema) -> str:
    if schema.fields:
        return ".".join(schema.name.split(".")[-2:])
    if schema.type == "array":
        return f"[]{_go_type(schema.items())}"
    if schema.type == "object":
        more = schema.field("")
        return f"map[string]{_go_type(more) if more is not None else 'interface {}'}"
    if schema.type == "integer":
        return str(schema.content.get("format", "int32"))
    return _PLAIN.get(schema.type, schema.type)


def _unhandled(kind: Kind, why: str) -> Exception:
    return bad_request(f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: {why}')
