"""Recordings made of rows, for tests of what is concluded from them."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median

import numpy as np

from dutycycle_alerter.recordings.model import NUMBERS, TEXTS, Recording, Rows, Skipped

START = 1_700_000_000.0


def recording(rows: Iterable[Mapping[str, str | float | None]]) -> Recording:
    """Rows as a recording; what a row does not say is missing, but for node, GPU, workload and user."""
    usual = {"node": "n1", "gpu": "0", "workload": "job", "user": "ann", "utilization_ratio": None}
    complete = [usual | dict(row) for row in rows]
    made = Rows()
    numbers = {name for row in complete for name in row if name in NUMBERS}
    made.extend(
        np.array([float(row["t"]) for row in complete]),
        {name: [str(row.get(name, "")) for row in complete] for name in TEXTS},
        {
            name: np.array([np.nan if row.get(name) is None else row[name] for row in complete], dtype=float)
            for name in numbers
        },
    )
    return made.recording(Skipped())


def lengths(times: Sequence[float]) -> list[float]:
    """The seconds that each row stands for by DESIGN's definition, row by row; `times` are distinct and in order."""
    if len(times) == 1:
        return [0.0]
    gaps = [None, *(after - before for before, after in pairwise(times))]
    usual = [median(gap for gap in gaps[max(0, i - 5) : i + 6] if gap is not None) for i in range(len(times))]
    return [middle if gap is None else min(gap, 1.5 * middle) for gap, middle in zip(gaps, usual, strict=True)]


def steady(
    utilization: float | None,
    minutes: float,
    *,
    start: float = START,
    every: float = 10.0,
    **fields: str | float | None,
) -> list[dict[str, str | float | None]]:
    """One GPU at one utilization, from `start` on."""
    count = round(minutes * 60 / every)
    return [{"t": start + every * (i + 1), "utilization_ratio": utilization, **fields} for i in range(count)]
