"""Plays a recording (CSV of one row per GPU and interval) on a driver's GPUs."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, groupby, pairwise
from pathlib import Path
from statistics import median

from .driver import Driver
from .models import A100, B200, H100, H200, RTX_3080_TI, V100
from .patterns import Curve, Piecewise
from .timeline import GpuProcess, Load, Run

_MODELS = {model.name: model for model in (V100, A100, H100, H200, B200, RTX_3080_TI)}
_FIRST_PID = 50_000


@dataclass(frozen=True)
class Row:
    """What a GPU did in the interval that ended at `t`."""

    t: float
    node: str
    gpu: str
    workload: str
    model: str
    utilization: float | None
    memory_used: int
    power_watts: float | None
    processes: int


def read(path: Path) -> list[Row]:
    """All rows, in the order of the file."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rows = csv.DictReader(content.decode().splitlines())
    return [_row(fields) for fields in rows]


def _row(fields: Mapping[str, str | None]) -> Row:
    return Row(
        t=float(fields["t"] or "nan"),
        node=fields.get("node") or "",
        gpu=fields.get("gpu") or fields.get("gpu_uuid") or "0",
        workload=fields.get("workload") or "",
        model=fields.get("model") or "",
        utilization=_number(fields, "utilization_ratio"),
        memory_used=int(_number(fields, "memory_used_bytes") or 0),
        power_watts=_number(fields, "power_watts"),
        processes=1 if (processes := _number(fields, "processes")) is None else int(processes),
    )


def _number(fields: Mapping[str, str | None], name: str) -> float | None:
    text = fields.get(name)
    return float(text) if text else None


@dataclass(frozen=True)
class _Spell:
    """Rows of one workload on one GPU without a gap between them; times as in the recording."""

    gpu: str
    model: str
    workload: str
    start: float
    end: float
    load: Load


def play(driver: Driver, rows: Iterable[Row], node: str | None = None) -> dict[str, int]:
    """Schedules a recording from now on, at the driver's time scale; one node of it, or all of them side by side.

    Adds a GPU for each of the recording's. Returns the index of each, by "node/gpu". Where a row has no utilization
    there is nothing to play: the job is away for that time.
    """
    chosen = sorted((row for row in rows if node is None or row.node == node), key=_series_and_time)
    pids = count(_FIRST_PID)
    spells = [spell for _, series in groupby(chosen, key=_series) for spell in _spells(list(series), pids)]
    origin = min(spell.start for spell in spells)
    models = {spell.gpu: _MODELS.get(spell.model, H100) for spell in spells}
    found = {gpu: driver.add_gpu(model).slot for gpu, model in models.items()}
    with driver.changing() as now_us:
        for spell in spells:
            start, end = (now_us + round((t - origin) * 1e6 / driver.time_scale) for t in (spell.start, spell.end))
            driver.add_run(found[spell.gpu], Run(spell.workload, spell.load, start, end))
    return found


def _series(row: Row) -> tuple[str, str, str]:
    return row.node, row.gpu, row.workload


def _series_and_time(row: Row) -> tuple[tuple[str, str, str], float]:
    return _series(row), row.t


def _spells(series: list[Row], pids: Iterator[int]) -> Iterator[_Spell]:
    length = median([after.t - before.t for before, after in pairwise(series)] or [1.0])
    rows = [row for row in series if row.utilization is not None]
    cuts = [i for i in range(1, len(rows)) if rows[i].t - rows[i - 1].t > 1.5 * length]
    for begin, end in pairwise([0, *cuts, len(rows)]):
        if begin < end:
            yield _spell(rows[begin:end], length, pids)


def _spell(rows: list[Row], length: float, pids: Iterator[int]) -> _Spell:
    start = rows[0].t - length
    until = [row.t - start for row in rows[:-1]]
    powers = [row.power_watts for row in rows if row.power_watts is not None]
    processes = rows[0].processes
    memory = max(row.memory_used for row in rows) // max(1, processes)
    load = Load(
        Piecewise(until, [min(1.0, row.utilization or 0.0) for row in rows]),
        [GpuProcess(next(pids), memory) for _ in range(processes)],
        power_watts=Curve(until, powers) if len(powers) == len(rows) else None,
    )
    first = rows[0]
    return _Spell(f"{first.node}/{first.gpu}", first.model, first.workload, start, rows[-1].t, load)
