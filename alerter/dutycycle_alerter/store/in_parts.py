"""Many values, in as many statements as databases need for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")

AT_ONCE = 500
"""How many values go into one IN list: SQLite's oldest limit on variables is 999."""


def in_parts(values: Collection[_T], at_once: int | None = None) -> Iterator[Sequence[_T]]:
    """As many at a time as a statement takes, or fewer."""
    listed, size = list(values), at_once or AT_ONCE
    return (listed[start : start + size] for start in range(0, len(listed), size))
