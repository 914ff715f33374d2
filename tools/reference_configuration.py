"""docs/configuration.md and alerter/config.example.yaml: every key of the alerter's configuration, from its model."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from inspect import getdoc
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import yaml
from annotated_types import Ge, Gt, Le, MaxLen
from pydantic import BaseModel, PlainSerializer, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from dutycycle_alerter import settings
from dutycycle_alerter.scale import write_duration
from tools.markdown import code, heading, paragraph, table

_SOURCE = "alerter/dutycycle_alerter/settings"
_WIDTH = 100
_NAMED = {
    settings.Duration: "duration",
    settings.RealDuration: "duration, not scaled",
    settings.Window: "window: 15m, 30m, 2h, 1d",
    settings.Ratio: "ratio",
    settings.Patterns: "pattern, or list of patterns",
    settings.LabelPatterns: "name=pattern, or list of such",
    settings.RuleNames: "list of rules on jobs",
    settings.Moment: "date, or time with its offset",
    settings.Clock: "time of day",
    settings.Zone: "time zone",
}


@dataclass(frozen=True)
class Key:
    """One key: `path` from the top, with `[]` for an entry of a list. `default` is None where one must be given."""

    path: str
    type: str
    default: str | None
    meaning: str


@dataclass(frozen=True)
class Part:
    """A section of the configuration, with the keys that are not sections themselves."""

    path: str
    about: str
    keys: tuple[Key, ...]


def document() -> bytes:
    """docs/configuration.md."""
    return "\n".join(_page()).encode()


def example() -> bytes:
    """alerter/config.example.yaml."""
    head = (
        "Every key of dutycycle's configuration with its default: a file that says nothing is the same as this one.",
        """Durations are written as in Prometheus (250ms, 30s, 15m, 1h30m, 7d). ${NAME} in a text is replaced from the
        environment, so that passwords need not be in the file. `dutycycle config FILE` checks it.""",
        f"Made from {_SOURCE} by `make generate`.",
    )
    lines = [line for text in head for line in _comment(_flat(text), 0)]
    return "\n".join([*lines, "", *_yaml(settings.Settings(), 0), ""]).encode()


def parts() -> list[Part]:
    """Every section, in the order of the file."""
    return list(_parts(settings.Settings, settings.Settings(), ""))


def _page() -> Iterator[str]:
    yield from heading("Configuration", _SOURCE)
    yield from paragraph("""
        The file that `dutycycle serve --config FILE` and `dutycycle up --config FILE` read is YAML; without one every
        default holds. [config.example.yaml](../alerter/config.example.yaml) has all keys with their defaults.
        `dutycycle config FILE` checks a file and prints what it comes to; an unknown key is an error that names the
        nearest valid one. `${NAME}` in a text is replaced from the environment: secrets need not be in the file.
    """)
    yield from paragraph("""
        Durations are written as in Prometheus: `250ms`, `30s`, `15m`, `1h30m`, `7d`. Each is divided by `time_scale`,
        unless its type says *not scaled*. A window is a duration too, of those for which evidence is kept. Ratios are
        0..1. The keys of an entry of a list are shown with `[]`.
    """)
    for part in parts():
        yield f"## {code(part.path)}" if part.path else "## Top level"
        yield ""
        yield from paragraph(part.about)
        rows = ((code(k.path), k.type, code(k.default or "") or "must be given", k.meaning) for k in part.keys)
        if part.keys:
            yield from table(("key", "type", "default", "meaning"), rows)


def _parts(model: type[BaseModel], values: BaseModel | None, path: str) -> Iterator[Part]:
    """`values` has the section's defaults; None for an entry of a list, where each field has its own."""
    keys: list[Key] = []
    nested: list[Part] = []
    for name, hint in _fields(model):
        field = model.model_fields[name]
        full = f"{path}.{name}" if path else name
        entry, optional = _entry(hint), _optional(hint)
        if _is_section(hint):
            nested += _parts(hint, None if values is None else getattr(values, name), full)
            continue
        if optional is not None:
            keys.append(Key(full, "section, or nothing", "null", _flat(field.description)))
            nested += _parts(optional, _with_defaults(optional), full)
            continue
        keys.append(Key(full, _type(hint, field), _default(field, values, name), _flat(field.description)))
        if entry is not None:
            nested += _parts(entry, None, f"{full}[]")
    yield Part(path, _flat(getdoc(model)), tuple(keys))
    yield from nested


def _yaml(values: BaseModel, depth: int) -> Iterator[str]:
    """A section's keys with their values, each under its meaning."""
    pad = "  " * depth
    written = values.model_dump(mode="json")
    for place, (name, hint) in enumerate(_fields(type(values))):
        field = type(values).model_fields[name]
        about = _flat(getdoc(hint) if _is_section(hint) else field.description)
        entry, optional = _entry(hint), _optional(hint)
        if depth == 0 and place:
            yield ""
        yield from _comment(about, depth)
        if _is_section(hint):
            yield f"{pad}{name}:"
            yield from _yaml(getattr(values, name), depth + 1)
            continue
        if optional is not None:
            yield from _comment(f"Keys, if it is given: {', '.join(optional.model_fields)}.", depth)
        if entry is not None:
            yield from _comment(f"Keys of an entry: {', '.join(entry.model_fields)}.", depth)
        yield f"{pad}{name}: {_scalar(written[name])}"


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(model, include_extras=True)
    return ((name, hints[name]) for name in model.model_fields)


def _is_section(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, settings.Section)


def _entry(hint: Any) -> type[BaseModel] | None:
    """The section of which a list has entries."""
    return next((arg for arg in get_args(hint) if get_origin(hint) is tuple and _is_section(arg)), None)


def _optional(hint: Any) -> type[BaseModel] | None:
    """The section that may be left out as a whole."""
    return next((arg for arg in get_args(hint) if NoneType in get_args(hint) and _is_section(arg)), None)


def _with_defaults(model: type[BaseModel]) -> BaseModel | None:
    """The section as it is when nothing is said; None where something must be."""
    try:
        return model()
    except ValidationError:
        return None


def _type(hint: Any, field: FieldInfo) -> str:
    optional = NoneType in get_args(hint)
    core = next(arg for arg in get_args(hint) if arg is not NoneType) if optional else hint
    named = next((name for known, name in _NAMED.items() if core == known or _narrows(core, known)), None)
    counted = "characters" if _is_text(core) else "entries"
    words = [named] if named else [_plain(core), *_bounds(field, counted)]
    return ", ".join([*words, "or nothing"] if optional else words)


def _is_text(hint: Any) -> bool:
    return (get_args(hint)[0] if get_origin(hint) is Annotated else hint) in (str, SecretStr)


def _narrows(hint: Any, known: Any) -> bool:
    """Whether a hint is a known one with more to be checked."""
    parts, wanted = get_args(hint), get_args(known)
    return get_origin(hint) is get_origin(known) is Annotated and parts[: len(wanted)] == wanted


_PLAIN = {
    bool: "true or false",
    str: "text",
    int: "whole number",
    float: "number",
    Path: "path",
    SecretStr: "text, never shown",
}


def _plain(hint: Any) -> str:
    core = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(core) is tuple:
        return f"list of {'entries' if _entry(core) else 'texts'}"
    if get_origin(core) is dict:
        return "texts by name"
    if get_origin(core) is Literal:
        return "one of " + ", ".join(get_args(core))
    if isinstance(core, type) and issubclass(core, Enum):
        return "one of " + ", ".join(member.value for member in core)
    if core not in _PLAIN:
        raise TypeError(f"tools.reference_configuration does not know how to describe {hint}")
    return _PLAIN[core]


def _bounds(field: FieldInfo, counted: str) -> Iterator[str]:
    for rule in field.metadata:
        match rule:
            case Gt(gt=bound):
                yield f"over {bound}"
            case Ge(ge=bound):
                yield f"at least {bound}"
            case Le(le=bound):
                yield f"at most {bound}"
            case MaxLen(max_length=bound):
                yield f"at most {bound} {counted}"


def _default(field: FieldInfo, values: BaseModel | None, name: str) -> str | None:
    if values is not None:
        return _scalar(values.model_dump(mode="json")[name])
    if field.is_required():
        return None
    # The model itself, not one of its instances, writes 30 where it means 30s.
    is_duration = any(isinstance(rule, PlainSerializer) and rule.func is write_duration for rule in field.metadata)
    return write_duration(field.default) if is_duration else _scalar(to_jsonable_python(field.default))


def _scalar(value: object) -> str:
    """A value as it stands in YAML, on one line."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    written = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return written.removesuffix("...\n").strip()


def _flat(text: str | None) -> str:
    return " ".join((text or "").split())


def _comment(text: str, depth: int) -> Iterator[str]:
    pad = "  " * depth + "# "
    return iter(textwrap.wrap(text, _WIDTH, initial_indent=pad, subsequent_indent=pad))
