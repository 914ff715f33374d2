"""Recordings made of rows, for tests of what is concluded from them."""

from collections.abc import Iterable, Mapping

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
