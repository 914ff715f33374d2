"""Answers in columns: a row for each key, NaN where it is not measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dutycycle_alerter.promql.answers import Vector

Column = NDArray[np.float64]
Cells = list[float | None]


class Rows:
    """The rows of a table, by key."""

    def __init__(self, keys: Sequence[tuple[str, ...]]) -> None:
        self.keys = keys
        self._places = {key: place for place, key in enumerate(keys)}
        self._last: tuple[list[tuple[str, ...]], NDArray[np.int64]] = [], self.places([])

    def __len__(self) -> int:
        return len(self.keys)

    def places(self, keys: Sequence[tuple[str, ...]]) -> NDArray[np.int64]:
        """The row of each key, -1 where there is none."""
        get = self._places.get
        return np.array([get(key, -1) for key in keys], dtype=np.int64)

    def empty(self) -> Column:
        """A column of which nothing is known."""
        return np.full(len(self.keys), np.nan)

    def fold(self, column: Column, answer: Vector) -> None:
        """Put an answer into a column. What comes twice is the higher; keys without a row are left out, and so is what
        is no number.
        """
        # An engine gives the series of one metric in the order of those of another.
        keys, found = self._last
        if keys != answer.keys:
            found = self.places(answer.keys)
            self._last = answer.keys, found
        usable = (found >= 0) & np.isfinite(answer.values)
        np.fmax.at(column, found[usable], answer.values[usable])


def cells(column: Column) -> Cells:
    """As Python's numbers, None where nothing is known."""
    found: Cells = column.tolist()
    for place in np.flatnonzero(np.isnan(column)).tolist():
        found[place] = None
    return found
