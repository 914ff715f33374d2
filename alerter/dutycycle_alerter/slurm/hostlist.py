"""Slurm's notation for many names in one text: `gpu[01-04,07],login`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

MOST = 65536
"""Names that one text may stand for, and numbers that one range may; more than any cluster has."""
_LONGEST = 2**20
_PARTS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_PLAIN = re.compile(r"[^\s\[\],]*")


def expand(text: str) -> tuple[str, ...]:
    """The names in a host list, in its order. Several brackets in a name multiply. Raises ValueError."""
    if len(text) > _LONGEST:
        raise ValueError("the host list is too long")
    names: list[str] = []
    for part in _split(text):
        names.extend(_expand_one(part, MOST - len(names)))
    return tuple(names)


def numbers(text: str) -> tuple[int, ...]:
    """The numbers in a list of ranges: `0,2-5`. An array's step is understood: `0-8:4`. Raises ValueError."""
    found: list[int] = []
    for part in text.split(","):
        span, _, step = part.partition(":")
        match = _RANGE.fullmatch(span)
        if not match or (step and not (step.isdecimal() and step.isascii() and 0 < int(step) < MOST)):
            raise ValueError("not a list of ranges")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or (last - first) // int(step or 1) >= MOST - len(found):
            raise ValueError("a range runs backwards or is too long")
        found.extend(range(first, last + 1, int(step or 1)))
    return tuple(found)


def _split(text: str) -> Iterator[str]:
    depth = begin = 0
    for position, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if not 0 <= depth <= 1:
            raise ValueError("the host list's brackets do not match")
        if character == "," and not depth:
            yield text[begin:position]
            begin = position + 1
    if depth:
        raise ValueError("the host list's brackets do not match")
    if text:
        yield text[begin:]


def _expand_one(part: str, room: int) -> Iterator[str]:
    pieces = _PARTS.split(part)
    if not part or any(not _PLAIN.fullmatch(plain) for plain in pieces[::2]):
        raise ValueError("not a host list")
    choices: list[tuple[str, ...]] = []
    for index, piece in enumerate(pieces):
        choices.append(tuple(_padded(piece)) if index % 2 else (piece,))
        room //= len(choices[-1])
        if not room:
            raise ValueError(f"the host list has more than {MOST} names")
    return ("".join(chosen) for chosen in product(*choices))


def _padded(ranges: str) -> Iterator[str]:
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part)
        if not match:
            raise ValueError("not a list of ranges")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first) or int(last) - int(first) >= MOST:
            raise ValueError("a range runs backwards or is too long")
        # The width of the first number is that of all: 08-11 is 08, 09, 10, 11.
        width = len(first) if first.startswith("0") or len(first) == len(last) else 0
        yield from (f"{number:0{width}d}" for number in range(int(first), int(last) + 1))
