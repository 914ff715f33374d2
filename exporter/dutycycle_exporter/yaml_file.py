"""Reads YAML files of people: bounded, strict, and with errors that say where.

Errors show keys and places, never values: a file may hold secrets.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dutycycle_exporter.errors import ConfigError

if TYPE_CHECKING:
    import yaml

MAX_BYTES = 256 * 1024
_MOST_NESTED = 20
_LONGEST_KEY = 80


def read(path: Path, *, had_keys: bool = False) -> dict[str, Any]:
    """The mapping in a file; an empty file is an empty one. Raises ConfigError with path, line and remedy.

    A file that `had_keys` when it was read last, and has none now, is an error: that is what a full disk leaves of it,
    and what is there for a moment while it is written anew. To say nothing switches passwords and TLS off.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_BYTES // 1024} KiB: this is no configuration")
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError:
        raise ConfigError(f"{shown(path)}: not the name of a file") from None
    data = _parse(path, text)
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected keys and values at the top level")
    if had_keys and not data:
        raise ConfigError(f"{path}: has no key any more, as if it had been cut short; restart if that is meant")
    return data


def unknown_key(where: str, key: object, known: Iterable[str]) -> ConfigError:
    """The error for a key that is not one of `known`: it names the nearest."""
    return _unknown(where, "key", key, known)


def unknown_name(where: str, name: object, known: Iterable[str]) -> ConfigError:
    """As `unknown_key`, for a value that has to be one of several names."""
    return _unknown(where, "name", name, known)


def _unknown(where: str, what: str, name: object, known: Iterable[str]) -> ConfigError:
    names = sorted(known)
    near = difflib.get_close_matches(str(name)[:_LONGEST_KEY], names, n=1)
    hint = f"did you mean {near[0]}?" if near else "there are " + ", ".join(names)
    return ConfigError(f"{where}: {shown(name)}: unknown {what}; {hint}")


def shown(key: object) -> str:
    """A key of a file for a message: short, and on one line whatever it holds."""
    text = str(key)
    text = text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}..."
    return text if text.isprintable() and text else ascii(text)


def _parse(path: Path, text: str) -> object:
    import yaml  # noqa: PLC0415 - only where a file was given: it costs memory

    class Loader(yaml.SafeLoader):
        def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803 - PyYAML's name
            # At each bracket PyYAML's scanner looks at all that are open: 3 kB of them take a second.
            if self.flow_level > _MOST_NESTED:
                raise RecursionError
            super().fetch_flow_collection_start(TokenClass)

    try:
        node = yaml.compose(text, Loader=Loader)
        if node is None:
            return None
        _check(path, node, 0, set())
        return yaml.SafeLoader("").construct_document(node)
    except yaml.MarkedYAMLError as error:
        # What the parser says may quote the file.
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise ConfigError(f"{place}: not YAML: look for a missing quote, colon or indentation there") from None
    except yaml.YAMLError:
        raise ConfigError(f"{path}: not YAML: it holds characters that YAML does not allow") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deep: this is no configuration") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # What PyYAML's constructors let through: dates such as 2020-13-45, tags on values that do not fit them.
        raise ConfigError(f"{path}: not YAML: a value does not fit its type ({type(error).__name__})") from None


def _check(path: Path, node: yaml.Node, depth: int, seen_nodes: set[int]) -> None:
    """Refuse what makes a small file mean something huge (aliases) or other than what it shows (a key twice).

    An alias of a single value is none of that. `seen_nodes` has the identities of the lists and mappings before.
    """
    import yaml  # noqa: PLC0415

    if depth > _MOST_NESTED:
        raise ConfigError(f"{path}: nested too deep: this is no configuration")
    if isinstance(node, yaml.CollectionNode):
        if id(node) in seen_nodes:
            place = f"{path}:{node.start_mark.line + 1}"
            raise ConfigError(f"{place}: an alias cannot stand for a list or mapping; write it out where it is used")
        seen_nodes.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        children = node.value
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, _ in node.value:
            place = f"{path}:{key.start_mark.line + 1}"
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"{place}: a key must be plain text")
            if key.value in seen:
                raise ConfigError(f"{place}: the key {shown(key.value)} is given twice")
            seen.add(key.value)
            # As it is written: `no: 1` has the key "no", not False.
            key.tag = "tag:yaml.org,2002:str"
        children = [value for _, value in node.value]
    else:
        return
    for child in children:
        _check(path, child, depth + 1, seen_nodes)
