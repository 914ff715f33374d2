"""Reads the configuration file: YAML in, checked settings out; errors name the file, the key and the remedy.

An error shows keys, never values beyond a few characters: a configuration holds secrets.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError
from yaml.scanner import ScannerError

from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.settings import Section, Settings

MAX_BYTES = 256 * 1024
_MAX_ERRORS = 20
_MAX_NESTED = 20
_MAX_KEY = 80


def load(path: Path) -> Settings:
    """Read a YAML file. Raises ConfigError naming the file, the key and the remedy."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_BYTES // 1024} KiB: this is not a configuration")
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    try:
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader, only stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise ConfigError(f"{place}: not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: not YAML: nested too deep: this is not a configuration") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # What PyYAML's constructors let through: dates such as 2020-13-45, tags on values that do not fit them.
        raise ConfigError(f"{path}: not YAML: a value does not fit its type ({type(error).__name__})") from error
    return parse({} if data is None else data, origin=str(path))


def parse(data: object, *, origin: str = "configuration") -> Settings:
    """Check a mapping. `${NAME}` in a string is replaced from the environment, so that secrets stay out of the file.

    Raises ConfigError naming the key and the nearest valid one.
    """
    if not isinstance(data, dict):
        raise ConfigError(f"{origin}: expected a mapping of keys at the top level, found {type(data).__name__}")
    try:
        return Settings.model_validate(_expand(data, origin))
    except ValidationError as error:
        items = error.errors(include_url=False, include_input=False)
        lines = [_explain(origin, item) for item in items[:_MAX_ERRORS]]
        if len(items) > _MAX_ERRORS:
            lines.append(f"{origin}: and {len(items) - _MAX_ERRORS} errors more")
        raise ConfigError("\n".join(lines)) from error


class _Loader(yaml.SafeLoader):
    """Refuses what makes a small file mean something huge (aliases) or other than what it shows (a key twice)."""

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803 - PyYAML's name
        # At each bracket PyYAML's scanner looks at all that are open: 3 kB of them take a second.
        if self.flow_level >= _MAX_NESTED:
            problem = "nested too deep: this is not a configuration"
            raise ScannerError(None, None, problem, self.get_mark())
        super().fetch_flow_collection_start(TokenClass)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise ComposerError(None, None, "aliases are not supported: write the value out", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                problem = f"the key {_shortened(key.value)!r} is given twice"
                raise ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else None)
        return super().construct_mapping(node, deep)


def _expand(value: object, origin: str, *place: object) -> object:
    if isinstance(value, dict):
        return {key: _expand(item, origin, *place, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, origin, *place, number) for number, item in enumerate(value)]
    if isinstance(value, str):
        if "\0" in value:
            # No path, name or address has one, and each reader of a file would have to say so by itself.
            raise ConfigError(f"{origin}: {_shown(place)}: there is a NUL character in it: remove it")
        return re.sub(r"\$\{(\w+)\}", lambda match: _variable(match.group(1), origin), value)
    return value


def _variable(name: str, origin: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise ConfigError(f"{origin}: ${{{name}}} is used, but the environment has no {name}") from None


def _explain(origin: str, item: Any) -> str:
    where = _shown(item["loc"])
    if item["type"] != "extra_forbidden":
        return f"{origin}: {where or 'top level'}: {item['msg'].removeprefix('Value error, ')}"
    section: type[Section] = Settings
    for part in item["loc"][:-1]:
        if isinstance(part, str):
            section = _section_of(section.model_fields[part].annotation)
    known = list(section.model_fields)
    near = difflib.get_close_matches(str(item["loc"][-1])[:_MAX_KEY], known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "valid keys here: " + ", ".join(sorted(known))
    return f"{origin}: {where}: unknown key; {hint}"


def _section_of(annotation: Any) -> type[Section]:
    """The section that a field holds, by itself or in a list."""
    found: type[Section] = next((a for a in get_args(annotation) if isinstance(a, type)), annotation)
    return found


def _shown(place: Iterable[object]) -> str:
    return ".".join(_shortened(str(part)) for part in place)


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_KEY else text[:_MAX_KEY] + "..."
