"""Label and field selectors: what they select and how a malformed one is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .kinds import Kind
from .status import bad_request
from .store import Stored

Selects = Callable[[Stored], bool]

_TOKEN = re.compile(r"\s*(==|=|!=|!|,|\(|\)|[^\s=!,()]+)")
_ALWAYS = ("metadata.name", "metadata.namespace")


def everything(_: Stored) -> bool:
    return True


def _labels(stored: Stored) -> dict[str, str]:
    found: dict[str, str] = stored.object["metadata"].get("labels") or {}
    return found


class _Reader:
    """Takes a label selector apart."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def take(self) -> str:
        return self.tokens.pop(0) if self.tokens else ""

    def identifier(self, *, or_nothing: bool = False) -> str:
        if or_nothing and self.peek() in ("", ","):
            return ""
        found = self.take()
        if not found or found in ("==", "=", "!=", "!", ",", "(", ")"):
            raise bad_request(f"unable to parse requirement: found '{found}', expected: identifier")
        return found

    def requirement(self) -> Selects:
        if self.peek() == "!":
            self.take()
            absent = self.identifier()
            return lambda stored: absent not in _labels(stored)
        key = self.identifier()
        operator = self.take() if self.peek() not in ("", ",") else ""
        if operator == "":
            return lambda stored: key in _labels(stored)
        if operator in ("=", "=="):
            value = self.identifier(or_nothing=True)
            return lambda stored: _labels(stored).get(key) == value
        if operator == "!=":
            other = self.identifier(or_nothing=True)
            return lambda stored: _labels(stored).get(key) != other
        if operator in ("in", "notin"):
            values = self.values()
            wanted = operator == "in"
            return lambda stored: (_labels(stored).get(key) in values) is wanted
        expected = "in, notin, =, ==, !=, gt, lt"
        raise bad_request(f"unable to parse requirement: found '{operator}', expected: {expected}")

    def values(self) -> set[str]:
        if self.take() != "(":
            raise bad_request("unable to parse requirement: found '', expected: '('")
        found = {self.identifier()}
        while self.peek() == ",":
            self.take()
            found.add(self.identifier())
        if self.take() != ")":
            raise bad_request("unable to parse requirement: found '', expected: ',' or ')'")
        return found


def labels(text: str) -> Selects | None:
    """What a labelSelector selects; None for an empty one."""
    if not text.strip():
        return None
    reader = _Reader(text)
    found = [reader.requirement()]
    while reader.peek() == ",":
        reader.take()
        found.append(reader.requirement())
    if reader.peek():
        raise bad_request(f"unable to parse requirement: found '{reader.peek()}', expected: ',' or 'end of string'")
    return lambda stored: all(one(stored) for one in found)


def value_at(content: dict[str, Any], path: str) -> str:
    """A field as a selector sees it: what is absent is the empty string."""
    found: Any = content
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    return "" if found is None else str(found)


def _terms(text: str) -> list[tuple[str, str, bool]]:
    found = []
    for part in text.split(","):
        if not part.strip():
            continue
        name, operator, value = re.split(r"(!=|==|=)", part, maxsplit=1) if "=" in part else (part, "", "")
        if not operator:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        found.append((name.strip(), value, operator != "!="))
    return found


def fields(kind: Kind, text: str) -> Selects | None:
    """What a fieldSelector selects; None for an empty one."""
    terms = _terms(text)
    if not terms:
        return None
    for name, _, _ in terms:
        if name not in _ALWAYS and name not in kind.fields:
            raise bad_request(f"field label not supported: {name}")
    return lambda stored: all((value_at(stored.object, name) == value) is wanted for name, value, wanted in terms)


def both(first: Selects | None, second: Selects | None) -> Selects | None:
    if first is None or second is None:
        return first or second
    return lambda stored: first(stored) and second(stored)
