"""An engine's answers in columns, decoded and checked: the keys asked for and numbers, no dictionaries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Keys = list[tuple[str, ...]]
"""One for each series. Answers of the same series share one list: it is not to be changed."""


@dataclass(frozen=True, slots=True)
class Vector:
    """One sample of each series.

    `keys` are the values of the labels that were asked for, in that order, "" where a series has no such label; they
    repeat where those labels do not tell the series apart. `values` are as many; NaN and infinities are kept.
    `warnings` are what the engine has to say beside it, such as that the answer is partial.
    """

    keys: Keys
    values: NDArray[np.float64]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Matrix:
    """The samples of each series in a range: those of series i are `[offsets[i]:offsets[i + 1]]` of both columns.

    `keys` and `warnings` are as in Vector. `times` are Unix seconds, ascending within a series.
    """

    keys: Keys
    offsets: NDArray[np.int64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]
    warnings: tuple[str, ...] = ()
