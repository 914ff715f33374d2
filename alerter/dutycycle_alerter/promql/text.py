"""Pieces of PromQL: quoted strings, label matchers and selectors that cannot be broken out of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Operator = Literal["=", "!=", "=~", "!~"]

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MATCHER = re.compile(
    r"""\s*(?P<label>[a-zA-Z_][a-zA-Z0-9_]*)\s*(?P<operator>=~|!~|!=|=)\s*"""
    r"""(?:"(?P<double>(?:[^"\\\n]|\\.)*)"|'(?P<single>(?:[^'\\\n]|\\.)*)')\s*"""
)
_ESCAPED = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
# U+FFFD and half of a surrogate pair are what a lexer takes for bytes that are no UTF-8.
_SPECIAL = re.compile('[\\\\"\x00-\x1f\x7f\ufffd\ud800-\udfff]')


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition of a selector. `value` is what it means, not how it is written."""

    label: str
    operator: Operator
    value: str

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.label) or self.label == "__name__":
            raise ValueError(f"{self.label[:80]!r} is not a label's name")

    def __str__(self) -> str:
        return f"{self.label}{self.operator}{quote(self.value)}"


def quote(value: str) -> str:
    """The value as a PromQL string with its quotes. What is not Unicode becomes U+FFFD: no label has such a value."""
    return f'"{_SPECIAL.sub(_escape, value)}"'


def parse_matcher(text: str) -> Matcher:
    """Read a matcher such as `cluster="a"` or `node=~"a.*"`, in either kind of quotes. Raises ValueError."""
    found = _MATCHER.fullmatch(text)
    if found is None:
        raise ValueError('a matcher is written like cluster="a" or node=~"gpu0.*", with =, !=, =~ or !~')
    value = found["double"] if found["double"] is not None else found["single"]
    operator: Operator = found["operator"]  # type: ignore[assignment]  # one of the four, by the expression
    return Matcher(found["label"], operator, re.sub(r"\\(u[0-9a-fA-F]{4}|.)", _unescape, value))


def selector(name: str, matchers: Iterable[str] = ()) -> str:
    """The metric's series that fulfil every matcher, each written as `parse_matcher` reads it. Raises ValueError."""
    if not _METRIC.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not a metric's name")
    conditions = ",".join(str(parse_matcher(matcher)) for matcher in matchers)
    return f"{name}{{{conditions}}}" if conditions else name


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if "\ud800" <= character <= "\udfff":
        character = "\ufffd"
    return _ESCAPES.get(character) or f"\\u{ord(character):04x}"


def _unescape(found: re.Match[str]) -> str:
    escape = found[1]
    if len(escape) > 1 and not "d800" <= escape[1:].lower() <= "dfff":
        return chr(int(escape[1:], 16))
    if escape not in _ESCAPED:
        known = " ".join(f"\\{escaped}" for escaped in _ESCAPED)
        raise ValueError(f"\\{escape} is not known in a matcher's string: {known} and \\u0000 are")
    return _ESCAPED[escape]
