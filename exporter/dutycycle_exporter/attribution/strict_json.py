"""JSON as its standard has it: what Python's reader takes beside that is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

Pairs = Callable[[list[tuple[str, Any]]], dict[str, Any]]
"""Makes an object of its members."""


def parse(text: str | bytes | bytearray, pairs: Pairs | None = None) -> object:
    """What a text says. Raises ValueError, and RecursionError where it is nested too deep."""
    return json.loads(text, object_pairs_hook=pairs, parse_constant=_refuse)


def _refuse(_: str) -> NoReturn:
    raise ValueError("NaN and infinity are not JSON")
