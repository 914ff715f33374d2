"""Cells of a CSV: a line split into them, and numbers out of them, with why they are none."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence

import numpy as np

from dutycycle_alerter.recordings.model import LATEST, Floats

# float() reads more than a recording may contain: nan, inf, 1_000, digits of other scripts.
_FOREIGN = re.compile(r"[^0-9.eE+-]")


class BadLineError(ValueError):
    """A line that cannot be read; the message says why."""


def split(line: str) -> list[str]:
    """The cells of one line. Raises BadLineError for quotes that do not end on it."""
    if '"' not in line:
        return line.split(",")
    try:
        return next(csv.reader([line], strict=True))
    except (csv.Error, StopIteration) as error:
        raise BadLineError(f"not CSV: {error}") from error


def table(lines: Sequence[str], width: int) -> list[Sequence[str]] | None:
    """The columns of lines; None where a line does not have `width` cells, or its quotes do not end on it."""
    if any('"' in line for line in lines):
        try:
            rows = [split(line) for line in lines]
        except BadLineError:
            return None
        return list(zip(*rows, strict=True)) if all(len(row) == width for row in rows) else None
    if any(line.count(",") != width - 1 for line in lines):
        return None
    # One list of all cells: a list for each of millions of lines takes several times as long.
    cells = ",".join(lines).split(",")
    return [cells[i::width] for i in range(width)]


def number(cell: str) -> float:
    """A finite number. Raises BadLineError."""
    try:
        value = math.nan if _FOREIGN.search(cell) else float(cell)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise BadLineError(f"{shown(cell)} is not a number")
    if not math.isfinite(value):
        raise BadLineError(f"{shown(cell)} is too large a number")
    return value


def column(cells: Sequence[str]) -> Floats | None:
    """A whole column of numbers at once, NaN where empty; None where any cell is something else."""
    if _FOREIGN.search("".join(cells)):
        return None
    try:
        values = np.array(
            [float(cell) if cell else math.nan for cell in cells] if "" in cells else [*map(float, cells)]
        )
    except ValueError:
        return None
    return None if np.isinf(values).any() else values


def unix_time(cell: str) -> float:
    """Seconds since 1970. Raises BadLineError."""
    value = number(cell)
    if value >= LATEST:
        raise BadLineError(f"t {shown(cell)} is not in seconds since 1970 (milliseconds?)")
    if value <= 0:
        raise BadLineError(f"t {shown(cell)} is not a time after 1970")
    return value


def shown(cell: str) -> str:
    """A cell inside a message, cut and quoted."""
    return repr(cell if len(cell) <= 40 else cell[:39] + "…")
