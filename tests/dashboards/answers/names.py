"""Metric and label names in PromQL, by a small lexer: Prometheus 2.42 tells nobody how it parses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
    | (?P<number>0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:ms|[smhdwy])?(?:\d+(?:ms|[smhdwy]))*)
    | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
    | (?P<sign>:|=~|!~|==|!=|<=|>=|[-+*/%^=<>(){}\[\],@])
    )""",
    re.VERBOSE,
)
_WORDS = frozenset(("and", "or", "unless", "atan2", "bool", "offset", "inf", "nan", "start", "end"))
_LISTS = frozenset(("by", "without", "on", "ignoring", "group_left", "group_right"))
_MAKERS = {"label_replace": 1, "label_join": 1, "count_values": 0}
"""Functions that make a label, and which of their parameters names it."""


@dataclass(slots=True)
class Names:
    """Selectors with the labels that they match, labels of groupings, and labels that the expression makes itself."""

    selected: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    grouped: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)


def names(expr: str) -> Names:
    """Raises ValueError for text that is no PromQL of the kind that we write: variables filled in, no comments."""
    tokens = list(_tokens(expr))
    found = Names()
    place = 0
    while place < len(tokens):
        kind, text = tokens[place]
        following = tokens[place + 1][1] if place + 1 < len(tokens) else ""
        if text == "[":
            place = tokens.index(("sign", "]"), place)
        elif text == "{":
            raise ValueError(f"a selector without a metric: {expr}")
        elif kind == "name" and text in _LISTS:
            if following == "(":
                place = _labels(tokens, place + 2, found)
        elif kind == "name" and following in ("(", "by", "without"):
            if text in _MAKERS:
                _made(tokens, place, found)
        elif kind == "name" and text.lower() not in _WORDS:
            place = _selector(tokens, place, found)
        place += 1
    return found


def _tokens(expr: str) -> Iterator[tuple[str, str]]:
    place, expr = 0, expr.strip()
    while place < len(expr):
        match = _TOKEN.match(expr, place)
        if match is None:
            raise ValueError(f"no PromQL at {expr[place : place + 40]!r}")
        place = match.end()
        assert match.lastgroup is not None
        yield match.lastgroup, match.group(match.lastgroup)


def _labels(tokens: list[tuple[str, str]], place: int, found: Names) -> int:
    while tokens[place][1] != ")":
        if tokens[place][0] == "name":
            found.grouped.add(tokens[place][1])
        place += 1
    return place


def _selector(tokens: list[tuple[str, str]], place: int, found: Names) -> int:
    metric, matched = tokens[place][1], []
    if place + 1 < len(tokens) and tokens[place + 1][1] == "{":
        place += 2
        while tokens[place][1] != "}":
            if tokens[place][0] == "name":
                matched.append(tokens[place][1])
            place += 1
    found.selected.append((metric, tuple(matched)))
    return place


def _made(tokens: list[tuple[str, str]], place: int, found: Names) -> None:
    """The label that a call makes; of `label_replace` also the one that it reads."""
    name, start = tokens[place][1], place + 1
    if tokens[start][1] in _LISTS:
        start = tokens.index(("sign", ")"), start) + 1
    parameters = list(_parameters(tokens, start + 1))
    found.made.add(parameters[_MAKERS[name]])
    if name == "label_replace" and parameters[3]:
        found.grouped.add(parameters[3])


def _parameters(tokens: list[tuple[str, str]], place: int) -> Iterator[str]:
    """A call's parameters: the text of a string, empty for anything else."""
    depth, said = 0, ""
    for kind, text in tokens[place:]:
        if depth == 0 and text in (",", ")") and kind == "sign":
            yield said
            said = ""
            if text == ")":
                return
        elif kind == "string" and depth == 0:
            said = text[1:-1]
        elif text in ("(", "{", "["):
            depth += 1
        elif text in (")", "}", "]"):
            depth -= 1
