"""Recorded runs: which GPUs each had when, and what each GPU did, without holes.

A row says what a GPU did in the interval that ended with it; how long that is, is the median between its times. Where a
row is missing, the time between its neighbours is taken to be like their mean, so that a run can be played from its
beginning to its end: those rows are marked as made.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

JOINED = 1.5
"""A row that ends within so many intervals after the one before it follows it."""


@dataclass(frozen=True)
class Row:
    """Of one GPU. `made`: it stands where the recording has a hole."""

    t: float
    utilization: float
    memory_used: float | None
    memory_total: float | None
    power: float | None
    processes: float | None
    made: bool = False


@dataclass(frozen=True)
class Track:
    """One GPU of a run, its rows by time, each `interval` seconds long."""

    gpu: str
    model: str
    interval: float
    rows: tuple[Row, ...]

    @property
    def start(self) -> float:
        return self.rows[0].t - self.interval

    @property
    def end(self) -> float:
        return self.rows[-1].t


@dataclass(frozen=True)
class Run:
    """A job as recorded, on one node."""

    workload: str
    user: str
    node: str
    tracks: tuple[Track, ...]
    longest_hole: float = 0.0
    """Seconds without a row of some GPU, between two that it has."""

    @property
    def start(self) -> float:
        return min(track.start for track in self.tracks)

    @property
    def end(self) -> float:
        return max(track.end for track in self.tracks)

    @property
    def length(self) -> float:
        return self.end - self.start

    @property
    def gpu_hours(self) -> float:
        """Recorded ones."""
        return sum(sum(not row.made for row in track.rows) * track.interval for track in self.tracks) / 3600

    @property
    def made_hours(self) -> float:
        return sum(sum(row.made for row in track.rows) * track.interval for track in self.tracks) / 3600


@dataclass(frozen=True)
class Recorded:
    """What a file has. `apart` are workloads that are left out, by the reason."""

    runs: tuple[Run, ...]
    apart: Mapping[str, tuple[str, ...]]


def read(path: Path) -> Recorded:
    """All runs of a file that can be played by themselves, in the order of their beginnings."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    found: defaultdict[str, defaultdict[tuple[str, str], list[Mapping[str, str]]]]
    found = defaultdict(lambda: defaultdict(list))
    for fields in csv.DictReader(text.decode().splitlines()):
        found[fields["workload"]][fields["node"], fields["gpu"]].append(fields)
    runs, apart = {}, defaultdict(list)
    for workload, gpus in found.items():
        run = _run(workload, gpus)
        if run is None:
            apart["no GPU has two rows, so that none stands for any time"].append(workload)
        elif len({node for node, _ in gpus}) > 1:
            apart["on several nodes"].append(workload)
        else:
            runs[workload] = run
    for workload in overlapping(runs.values()):
        apart["shares a GPU with another run at the time"].append(workload)
        del runs[workload]
    ordered = sorted(runs.values(), key=lambda run: (run.start, run.workload))
    return Recorded(tuple(ordered), {reason: tuple(names) for reason, names in apart.items()})


def overlapping(runs: Iterable[Run]) -> list[str]:
    """Workloads that are on a GPU at the same time as another."""
    held: defaultdict[tuple[str, str], list[tuple[float, float, str]]] = defaultdict(list)
    for run in runs:
        for track in run.tracks:
            held[run.node, track.gpu].append((track.start, track.end, run.workload))
    shared: set[str] = set()
    for spans in held.values():
        spans.sort()
        for place, (_, end, workload) in enumerate(spans):
            for start, _, other in spans[place + 1 :]:
                if start >= end:
                    break
                shared |= {workload, other}
    return sorted(shared)


def _run(workload: str, gpus: Mapping[tuple[str, str], Sequence[Mapping[str, str]]]) -> Run | None:
    tracks, hole = [], 0.0
    for (_, gpu), fields in sorted(gpus.items(), key=lambda item: int(item[0][1])):
        rows = sorted({row.t: row for row in map(_row, fields) if row is not None}.values(), key=lambda row: row.t)
        if len(rows) < 2:
            continue
        gaps = [after.t - before.t for before, after in pairwise(rows)]
        interval = median(gaps)
        hole = max(hole, max(gaps) - interval)
        tracks.append(Track(gpu, fields[0]["model"], interval, tuple(filled(rows, interval))))
    if not tracks:
        return None
    (node, _), first = next(iter(gpus.items()))
    return Run(workload, first[0]["user"], node, tuple(tracks), hole)


def _row(fields: Mapping[str, str]) -> Row | None:
    utilization = _number(fields["utilization_ratio"])
    if utilization is None:
        return None
    return Row(
        t=float(fields["t"]),
        utilization=utilization,
        memory_used=_number(fields["memory_used_bytes"]),
        memory_total=_number(fields["memory_total_bytes"]),
        power=_number(fields["power_watts"]),
        processes=_number(fields["processes"]),
    )


def _number(text: str) -> float | None:
    return float(text) if text else None


def filled(rows: Sequence[Row], interval: float) -> Iterable[Row]:
    """The rows, and made ones in their holes."""
    yield rows[0]
    for before, after in pairwise(rows):
        gap = after.t - before.t
        if gap > JOINED * interval:
            missing = max(1, round(gap / interval) - 1)
            between = replace(
                before,
                utilization=fmean((before.utilization, after.utilization)),
                power=None if before.power is None or after.power is None else fmean((before.power, after.power)),
                made=True,
            )
            for number in range(missing):
                yield replace(between, t=before.t + (number + 1) * gap / (missing + 1))
        yield after


def write(path: Path, runs: Iterable[Run], *, made: bool = True) -> None:
    """A recording of some runs, with or without the rows that were made."""
    names = (
        "t node gpu model workload user utilization_ratio memory_used_bytes memory_total_bytes power_watts processes"
    )
    with gzip.open(path, "wt", newline="", compresslevel=3) as file:
        writer = csv.writer(file)
        writer.writerow(names.split())
        for run in runs:
            for track in run.tracks:
                place = run.node, track.gpu, track.model, run.workload, run.user
                for row in track.rows:
                    if made or not row.made:
                        figures = row.utilization, row.memory_used, row.memory_total, row.power, row.processes
                        writer.writerow((row.t, *place, *("" if value is None else value for value in figures)))
