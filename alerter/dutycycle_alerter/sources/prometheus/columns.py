"""Answers in columns: a row for each key, NaN where it is not measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dutycycle_alerter.promql.answers import Vector

Column = NDArray[np.float64]
Cells = list[float | None]


class Rows:
    """The rows of a table, by key."""

    def __init__(self, keys: Sequence[tuple[str, ...]]) -> None:
        self.keys = keys
        self._places: Mapping[tuple[str, ...], int] = {key: place for place, key in enumerate(keys)}

    def __len__(self) -> int:
        return len(self.keys)

    def place(self, key: tuple[str, ...]) -> int | None:
        """The row of a key; None where there is none."""
        return self._places.get(key)

    def empty(self) -> Column:
        """A column of which nothing is known."""
        return np.full(len(self.keys), np.nan)

    def fold(self, column: Column, answer: Vector, *, lowest: bool = False) -> None:
        """Put an answer into a column. What comes twice is the higher (or the `lowest`); keys without a row are left
        out, and so is what is no number.
        """
        places = self._places
        found = np.fromiter((places.get(key, -1) for key in answer.keys), dtype=np.int64, count=len(answer.keys))
        usable = (found >= 0) & np.isfinite(answer.values)
        combine = np.fmin if lowest else np.fmax
        combine.at(column, found[usable], answer.values[usable])


def cells(column: Column) -> Cells:
    """As Python's numbers, None where nothing is known."""
    found: Cells = column.tolist()
    for place in np.flatnonzero(np.isnan(column)).tolist():
        found[place] = None
    return found
