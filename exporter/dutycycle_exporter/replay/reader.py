"""Stands in for NVML: gives at every instant what the recording has for it, and whose the GPUs were."""

from __future__ import annotations

import math
import re
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from dutycycle_exporter.model import (
    Allocation,
    GpuReading,
    HostReading,
    Ownership,
    Process,
    Snapshot,
    Span,
    Workload,
)
from dutycycle_exporter.replay.course import Course
from dutycycle_exporter.replay.integral import Integral
from dutycycle_exporter.replay.recording import MOST_PROCESSES, Column, Series, read

_FIRST_PID = 2**22 + 1
"""Linux gives no process a number above 2**22: those of a replay cannot be taken for real ones."""

_SLURM = re.compile(r"slurm/(\d+)(?:_\d+)?")


class ReplayReader:
    """Plays one node of a recording: its time t is wall time `epoch + (t - start) / time_scale`.

    `start` is the beginning of the earliest row of the whole file, whatever its node, so exporters that are given the
    same epoch play their nodes in step, and one that is started again goes on where the others are. Everything is
    computed from the file and the instant; what lies before the first call of `read` is not told.
    """

    def __init__(self, path: Path, *, node: str, epoch: float, time_scale: float) -> None:
        """`node` may be empty where the file has only one. Raises ReplayError."""
        recording = read(path, node)
        clock = _Clock(recording.start, epoch, time_scale)
        tracks = [_Track(series, clock, _FIRST_PID + i * MOST_PROCESSES) for i, series in enumerate(recording.series)]
        by_gpu = [list(group) for _, group in groupby(sorted(tracks, key=_gpu), _gpu)]
        indexes = _indexes([of_gpu[0].gpu for of_gpu in by_gpu])
        self._gpus = sorted(
            (_Gpu(of_gpu, recording.node, index) for of_gpu, index in zip(by_gpu, indexes, strict=True)),
            key=lambda gpu: (gpu.index, gpu.uuid),
        )
        owned = sorted((track for track in tracks if track.workload.id), key=_workload)
        self._hosts = [_Host(list(group)) for _, group in groupby(owned, _workload)]
        self._previous: float | None = None

    def read(self, now: float, elapsed: float | None = None) -> Snapshot:
        """What lies between the previous call and `now`; the first call, and one at an earlier time, begins there.
        `elapsed` is what `elapsed()` is at `now`.
        """
        began = time.perf_counter()
        since = now if self._previous is None else min(self._previous, now)
        self._previous = now
        present = [(gpu, track) for gpu in self._gpus for track in gpu.tracks if track.owned_at(now)]
        ownership = Ownership(
            allocations=tuple(track.allocation(gpu.uuid, now) for gpu, track in present),
            pids={pid: track.workload.id for _, track in present for pid in track.pids(now) or ()},
            hosts=tuple(reading for host in self._hosts if (reading := host.reading(now)) is not None),
        )
        gpus = tuple(gpu.reading(since, now, 0.0 if elapsed is None else elapsed - now) for gpu in self._gpus)
        duration = time.perf_counter() - began
        return Snapshot(t=now, gpus=gpus, visible=len(gpus), duration=duration, ownership=ownership, elapsed=elapsed)

    @property
    def poll_interval(self) -> float:
        """Return infinity: nothing is to be polled."""
        return math.inf

    def poll(self, elapsed: float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Nothing is held: the file was read when this was made."""


@dataclass(frozen=True, slots=True)
class _Clock:
    """From the time of the recording to wall time."""

    start: float
    epoch: float
    time_scale: float

    def wall(self, recorded: float) -> float:
        return self.epoch + (recorded - self.start) / self.time_scale

    def walls(self, recorded: Column) -> Column:
        return array("d", map(self.wall, recorded))


class _Track:
    """One workload on one GPU, in wall time. Where nobody held the GPU, the workload's id is empty."""

    def __init__(self, series: Series, clock: _Clock, first_pid: int) -> None:
        self.key, self.gpu, self.gpu_uuid = series.key, series.gpu, series.gpu_uuid
        self.model = series.texts.get("model", "")
        self.workload = _as_workload(series)
        self._starts, self._ends = clock.walls(series.starts), clock.walls(series.ends)
        self._columns = series.columns
        self._course = Course(series)
        self._clock = clock
        self._first_pid = first_pid
        worked = (start for start, count in zip(self._starts, series.column("processes"), strict=True) if count >= 1)
        self._first_process = next(worked, None)

    @property
    def begin(self) -> float:
        """When the first row begins."""
        return self._starts[0]

    def owned_at(self, now: float) -> bool:
        """Whether the workload holds the GPU: from its first row to its last, whatever lies between."""
        return self.workload.id != "" and self._starts[0] < now <= self._ends[-1]

    def shown_at(self, now: float) -> bool:
        """Whether a row stands for this instant."""
        return self._row(now) is not None

    def value(self, column: str, now: float) -> float | None:
        """What a column says of an instant; None where it says nothing."""
        i = self._row(now)
        value = math.nan if i is None or column not in self._columns else self._columns[column][i]
        return None if math.isnan(value) else value

    def stretches(self, column: str) -> Iterator[tuple[float, float, float]]:
        """A column over all time: (start, end, value)."""
        return zip(self._starts, self._ends, self._columns.get(column, ()), strict=False)

    def pids(self, now: float) -> range | None:
        """The same number for the same process of a row at every time, and in every run."""
        count = self.value("processes", now)
        return None if count is None else range(self._first_pid, self._first_pid + round(count))

    def allocation(self, gpu_uuid: str, now: float) -> Allocation:
        """Of a GPU that the workload holds."""
        first = self._first_process
        return Allocation(gpu_uuid, self.workload, self.begin, None if first is None or first >= now else first)

    def spans(self, since: float, now: float) -> list[Span]:
        """The measured stretches of (since, now]."""
        found = []
        i = bisect_right(self._ends, since)
        while i < len(self._ends) and self._starts[i] < now:
            for span in self._course.row(i):
                start, end = max(since, self._clock.wall(span.start)), min(now, self._clock.wall(span.end))
                if start < end:
                    found.append(Span(start, end, span.utilization))
            i += 1
        return found

    def _row(self, now: float) -> int | None:
        i = bisect_left(self._ends, now)
        return i if i < len(self._ends) and self._starts[i] < now else None


class _Gpu:
    """One GPU, and all who held it."""

    def __init__(self, tracks: Sequence[_Track], node: str, index: int) -> None:
        self.tracks = tracks
        first = min(tracks, key=lambda track: track.begin)
        self.uuid = first.gpu_uuid or f"GPU-replay-{node}-{first.gpu}"
        self.index = index
        self._model = first.model
        self._energy = [Integral(track.stretches("power_watts")) for track in tracks]

    def reading(self, since: float, now: float, shift: float) -> GpuReading:
        """`shift` takes a time of day to the clock of spans."""
        shown = [track for track in self.tracks if track.shown_at(now)]
        courses = [(track, spans) for track in self.tracks if (spans := track.spans(since, now))]
        spans = courses[0][1] if len(courses) == 1 else _together([spans for _, spans in courses])
        work = {id(track): _mean(spans) / len(courses) for track, spans in courses}
        power = _sum(track.value("power_watts", now) for track in shown)
        return GpuReading(
            uuid=self.uuid,
            index=self.index,
            model=self._model,
            spans=tuple(Span(span.start + shift, span.end + shift, span.utilization) for span in spans),
            utilization=spans[-1].utilization if spans and shown else None,
            memory_used=_sum(track.value("memory_used_bytes", now) for track in shown),
            memory_total=_highest(shown, "memory_total_bytes", now),
            power=power,
            power_limit=_highest(shown, "power_limit_watts", now),
            # The integral stands still where nobody knows the power: a counter that stands still would read as 0 W.
            energy=None if power is None else _sum(energy.at(now) for energy in self._energy),
            stopped=frozenset({("energy", "")}) if power is None else frozenset(),
            processes=_processes(shown, work, now),
        )


class _Host:
    """One workload's CPU and pressure on the node. Its rows on every GPU say the same: the first that does is taken."""

    def __init__(self, tracks: Sequence[_Track]) -> None:
        self._tracks = tracks
        self._cpu = _integral(tracks, "cpu_cores")
        self._io = _integral(tracks, "io_pressure_ratio")
        self._cpu_pressure = _integral(tracks, "cpu_pressure_ratio")

    def reading(self, now: float) -> HostReading | None:
        """None while the workload has no GPU here, or where the recording says nothing of its CPU and pressure."""
        present = [track for track in self._tracks if track.owned_at(now)]
        if not present:
            return None
        reading = HostReading(
            workload=present[0].workload,
            cpu_seconds=self._cpu.at(now),
            cpu_limit=_highest(present, "cpu_limit_cores", now),
            io_pressure=self._io.at(now),
            cpu_pressure=self._cpu_pressure.at(now),
        )
        return None if reading == HostReading(reading.workload) else reading


def _gpu(track: _Track) -> str:
    return track.key


def _workload(track: _Track) -> str:
    return track.workload.id


def _as_workload(series: Series) -> Workload:
    slurm = _SLURM.fullmatch(series.workload)
    return Workload(
        id=series.workload,
        scheduler=series.texts.get("scheduler", ""),
        job_id=slurm.group(1) if slurm else "",
        user=series.texts.get("user", ""),
        account=series.texts.get("account", ""),
    )


def _indexes(names: Sequence[str]) -> list[int]:
    """NVML's indexes where the recording names GPUs by them, else the places of the names in their order."""
    if all(re.fullmatch(r"\d{1,4}", name) for name in names):
        return [int(name) for name in names]
    order = sorted(range(len(names)), key=lambda i: names[i])
    return [order.index(i) for i in range(len(names))]


def _integral(tracks: Iterable[_Track], column: str) -> Integral:
    return Integral(stretch for track in tracks for stretch in track.stretches(column))


def _highest(tracks: Iterable[_Track], column: str, now: float) -> float | None:
    """What rows say that all tell the same: of a GPU that is shared, or of a workload on several GPUs."""
    return max((value for track in tracks if (value := track.value(column, now)) is not None), default=None)


def _sum(parts: Iterable[float | None]) -> float | None:
    """What rows say that tell each its workload's part of a GPU; None where none says anything."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _processes(shown: Sequence[_Track], work: dict[int, float], now: float) -> tuple[Process, ...] | None:
    """The processes on a GPU; None where nobody, or not everybody, knows theirs."""
    found: list[Process] = []
    for track in shown:
        pids = track.pids(now)
        if pids is None:
            return None
        memory = track.value("memory_used_bytes", now)
        for pid in pids:
            found.append(
                Process(
                    pid=pid,
                    memory=None if memory is None else memory / len(pids),
                    utilization=work.get(id(track), 0.0) / len(pids),
                )
            )
    return tuple(found) if shown else None


def _mean(spans: Sequence[Span]) -> float:
    length = sum(span.end - span.start for span in spans)
    return sum(span.utilization * (span.end - span.start) for span in spans) / length


def _together(courses: Sequence[Sequence[Span]]) -> list[Span]:
    """The course of a GPU that several held: the mean of those who have one, as each has an equal share of it."""
    cuts = sorted({edge for spans in courses for span in spans for edge in (span.start, span.end)})
    found = []
    places = [0] * len(courses)
    for start, end in pairwise(cuts):
        levels = []
        for which, spans in enumerate(courses):
            while places[which] < len(spans) and spans[places[which]].end <= start:
                places[which] += 1
            if places[which] < len(spans) and spans[places[which]].start <= start:
                levels.append(spans[places[which]].utilization)
        if levels:
            found.append(Span(start, end, sum(levels) / len(levels)))
    return found
