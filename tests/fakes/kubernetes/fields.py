"""Fields that are unknown or given twice: ignored, warned of, or refused, as fieldValidation asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from . import schemas
from .kinds import Kind
from .schemas import Schema
from .status import Refusal, bad_request, invalid
from .store import Object


class _Read(dict[str, Any]):
    """An object of a JSON text that knows which of its fields came twice."""

    repeated: tuple[str, ...] = ()


def _pairs(pairs: list[tuple[str, Any]]) -> _Read:
    found = _Read(pairs)
    names = [name for name, _ in pairs]
    found.repeated = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
    return found


def read(body: bytes) -> Any:
    """JSON, with what is wrong with its fields still to be told."""
    return json.loads(body, object_pairs_hook=_pairs)


def checked(kind: Kind, content: Object, mode: str) -> tuple[Object, tuple[str, ...]]:
    """The content without its unknown fields, and what to warn of. 400 where `mode` is Strict and there is anything."""
    kept, found = _known(kind, content)
    if found and mode == "Strict":
        why = f"strict decoding error: {', '.join(found)}"
        raise bad_request(f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: {why}')
    return kept, () if mode == "Ignore" else tuple(found)


def patched(kind: Kind, content: Object, mode: str, patch: Any) -> tuple[Object, tuple[str, ...]]:
    """As checked, for what a patch has made: the refusal is a 422 that shows the patch."""
    kept, found = _known(kind, content)
    if found and mode == "Strict":
        raise _refused(patch, found)
    return kept, () if mode == "Ignore" else tuple(found)


def _refused(patch: Any, found: list[str]) -> Refusal:
    shown = json.dumps(_go(patch), ensure_ascii=False)
    return invalid(' ""', {}, [("patch", f"Invalid value: {shown}: strict decoding error: {', '.join(found)}")])


def _known(kind: Kind, content: Object) -> tuple[Object, list[str]]:
    schema = schemas.of(kind)
    found = [f'duplicate field "{name}"' for name in _repeated(content, "")]
    unknown: list[str] = []
    kept = _kept(content, schema, "", unknown)
    return kept, [*found, *(f'unknown field "{name}"' for name in unknown)]


def _kept(value: Any, schema: Schema, path: str, unknown: list[str]) -> Any:
    if isinstance(value, list):
        items = schema.items()
        return [_kept(one, items, f"{path}[{index}]", unknown) for index, one in enumerate(value)]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, inner in value.items():
        at = f"{path}.{name}" if path else name
        known = schema.field(name)
        if known is not None:
            found[name] = _kept(inner, known, at, unknown)
        elif schema.open:
            found[name] = inner
        else:
            unknown.append(at)
    return found


def _repeated(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Read):
        yield from (f"{path}{name}" for name in value.repeated)
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _repeated(inner, f"{path}{name}" if isinstance(inner, list) else f"{path}{name}.")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _repeated(inner, f"{path}[{index}].")


def _go(value: Any) -> str:
    """A value as Go prints it."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{_go(value[name])}' for name in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(_go(one) for one in value)}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)
