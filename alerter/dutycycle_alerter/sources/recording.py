"""A recording as evidence: each workload is a job, and at any instant of its life it says what the alerter would have
known of it then.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from dutycycle_alerter.history import GPU_COUNTERS, ColumnSeries, Series
from dutycycle_alerter.memory_growth import Highs, last_grew
from dutycycle_alerter.model import LOW_SAMPLE, Consumption, Gpu, Job, JobEvidence
from dutycycle_alerter.recordings.model import Floats, Recording
from dutycycle_alerter.recordings.pauses import idle_rows, long_gaps
from dutycycle_alerter.recordings.tracks import Track, Tracks, present
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.consumed import consumed
from dutycycle_alerter.sources.jobs import describe
from dutycycle_alerter.window_usage import window_evidence

# A GPU has left its job when the job went on without it for this many of its intervals, as an allocation that is
# absent from three answers of its exporter has ended.
_ABSENT = 3


class RecordedJob:
    """One workload of a recording.

    `start` is the start of its first row, `end` the end of its last. A GPU belongs to it from the start of the GPU's
    first row to the end of its last row. `memory_baseline` has the bytes in use on a GPU without a process, by model.
    """

    def __init__(
        self,
        recording: Recording,
        tracks: Sequence[Track],
        settings: Settings,
        memory_baseline: Mapping[str, float],
    ) -> None:
        tracks = sorted(tracks, key=lambda track: natural(track.gpu))
        self._gpus = [track.gpu for track in tracks]
        self._memory_baseline = [memory_baseline.get(gpu.model) for gpu in self._gpus]
        self._series = [_gpu_series(recording, track, settings.time_scale) for track in tracks]
        self._until = [series.times[-1] + _ABSENT * t.interval for series, t in zip(self._series, tracks, strict=True)]
        self._hosts = _host_series(recording, tracks)
        self._ends = np.unique(np.concatenate([recording.t[track.rows] for track in tracks]))
        self.rows = sum(len(track.rows) for track in tracks)
        self.start = min(series.times[0] for series in self._series)
        self.end = max(series.times[-1] for series in self._series)
        self.job = _job(recording, tracks, self.start, settings)
        self._first_process = _first_process(recording, tracks)
        self._loading = settings.judging.grace.longest_loading
        loaded = max(self.start, self._first_process or self.start) + self._loading
        self._highs = _memory_highs(self._series, self.start, loaded)

    def passes(self, every: float) -> list[float]:
        """When it is judged: `every` so many seconds while it lives, if a row has ended since the time before; and as
        its last row ends, which may be long ones.
        """
        steps = np.unique(np.ceil((self._ends - self.start) / every - 1e-9))
        times = {min(self.start + step * every, self.end) for step in steps.tolist()}
        return sorted(at for at in times if at > self.start)

    def evidence(self, at: float, *, since: float | None = None, ended: bool = False) -> JobEvidence:
        """What was known of it at `at`; `since` asks for what it consumed from then on."""
        here = [i for i, series in enumerate(self._series) if series.times[0] < at <= self._until[i]]
        series = [self._series[i] for i in here]
        first = self._first_process if self._first_process is not None and self._first_process <= at else None
        begun = self.start if first is None else first
        nodes = dict.fromkeys(self._gpus[i].node for i in here)
        return JobEvidence(
            job=replace(
                self.job,
                gpus=tuple(self._gpus[i] for i in here),
                first_process=first,
            ),
            at=at,
            window=partial(
                window_evidence,
                series,
                [self._hosts.get(node) for node in nodes],
                at,
                memory_baseline=[self._memory_baseline[i] for i in here],
            ),
            watched_from=max((one.times[0] for one in series), default=self.start),
            memory_grew_at=self._grew_at(at, begun),
            ended=at if ended else None,
            recent=() if since is None else tuple(self._consumption(since, at)),
        )

    def _grew_at(self, at: float, begun: float) -> float | None:
        return last_grew(self._highs, self.start, min(at, begun + self._loading))

    def _consumption(self, since: float, at: float) -> Iterator[Consumption]:
        pairs = zip(self._gpus, self._series, strict=True)
        return consumed((gpu, series.increase(since, at)) for gpu, series in pairs)


JobBuilder = Callable[[], RecordedJob]
"""Builds a job, which takes memory for each of its rows."""


def recorded_jobs(recording: Recording, tracks: Tracks, settings: Settings) -> Iterator[RecordedJob]:
    """Yield the jobs of `job_builders`."""
    return (build() for build in job_builders(recording, tracks, settings))


def job_builders(recording: Recording, tracks: Tracks, settings: Settings) -> list[JobBuilder]:
    """Return a function that builds the job of each workload, in the order of their names, for jobs of which some GPU
    has rows that stand for time. `settings` say which kinds of jobs they are.
    """
    by_workload: defaultdict[str, list[Track]] = defaultdict(list)
    for track in tracks.tracks:
        by_workload[track.workload].append(track)
    memory_baseline = _memory_baseline(recording)
    return [
        partial(RecordedJob, recording, members, settings, memory_baseline)
        for _, members in sorted(by_workload.items())
        if any(track.interval > 0 for track in members)
    ]


def _memory_baseline(recording: Recording) -> dict[str, float]:
    """Return the least memory (bytes) in use on a GPU of each model that did nothing and had no process. A GPU that
    works without a process hides its processes.
    """
    memory, processes = recording.numbers.get("memory_used_bytes"), recording.numbers.get("processes")
    if memory is None or processes is None:
        return {}
    free = (processes == 0) & (recording.numbers["utilization_ratio"] == 0) & ~np.isnan(memory)
    models = recording.texts["model"]
    return {
        models.names[code]: float(memory[free & (models.codes == code)].min())
        for code in np.unique(models.codes[free]).tolist()
    }


def natural(gpu: Gpu) -> tuple[str, int, str, str]:
    """What GPUs are sorted by: node, and index as a number where it is one."""
    return gpu.node, int(gpu.index) if gpu.index.isascii() and gpu.index.isdigit() else -1, gpu.index, gpu.uuid


def _job(recording: Recording, tracks: Sequence[Track], start: float, settings: Settings) -> Job:
    first = min((track.rows[0] for track in tracks), key=lambda row: float(recording.t[row]))
    labels = {
        name: column.names[column.codes[first]]
        for name, column in recording.texts.items()
        if name in ("workload", "scheduler", "user", "account")
    }
    return describe(
        labels,
        kinds=settings.kinds,
        uneven_by_design=settings.uneven_by_design,
        job_id=labels["workload"],
        gpus=tuple(track.gpu for track in tracks),
        start=start,
    )


def _first_process(recording: Recording, tracks: Sequence[Track]) -> float | None:
    """When a process first held a GPU of the job, as far as the rows tell: the start of that row."""
    processes = recording.numbers.get("processes")
    if processes is None:
        return None
    starts = []
    for track in tracks:
        held = np.flatnonzero(processes[track.rows] > 0)
        if held.size:
            starts.append(float(recording.t[track.rows[held[0]]] - track.lengths[held[0]]))
    return min(starts, default=None)


def _gpu_series(recording: Recording, track: Track, time_scale: float) -> Series:
    """The track's rows as counters. Where a row does not follow the one before it, nothing grows in between."""
    t, length = recording.t[track.rows], track.lengths
    busy = _column(recording, "utilization_ratio", track)
    observed = np.where(np.isnan(busy), 0.0, length)
    grown: dict[str, Floats | None] = {
        "observed": observed,
        "busy": busy * length,
        "gap_lt2": _seconds(recording, "idle_gap_lt2_ratio", track),
        "gap_2to30": _seconds(recording, "idle_gap_2to30_ratio", track),
        "energy": _seconds(recording, "power_watts", track),
        "sm": _seconds(recording, "sm_active_ratio", track),
        "tensor": _seconds(recording, "tensor_active_ratio", track),
        "dram": _seconds(recording, "dram_active_ratio", track),
        # A row is one sample to whoever reads it: NaN is not low.
        "low": np.where(busy <= LOW_SAMPLE, length, 0.0),
    }
    apart = np.diff(t, prepend=-math.inf) > length
    lt2, to30 = grown["gap_lt2"], grown["gap_2to30"]
    if lt2 is not None and to30 is not None:
        idle = idle_rows(busy, np.nan_to_num(lt2 + to30))
        grown["gap_30to600"], grown["gap_ge600"] = long_gaps(idle, apart, length, time_scale=time_scale)
    times = _with_starts(t, t - length, apart)
    totals = {"allocated": times - times[0]}
    for name, values in grown.items():
        if values is not None:
            total = np.cumsum(np.nan_to_num(values))
            totals[name] = _with_starts(total, total - np.nan_to_num(values), apart)
    gauges = [_gauge(recording, name, track, apart) for name in _GAUGES]
    return ColumnSeries(times, [totals.get(name) for name in GPU_COUNTERS], [None, *gauges])


_GAUGES = ("memory_used_bytes", "memory_total_bytes", "processes", "power_limit_watts")


def _host_series(recording: Recording, tracks: Sequence[Track]) -> dict[str, Series]:
    """CPU and pressure by node: they are the workload's there, and repeated in the rows of each of its GPUs."""
    hosts: dict[str, Series] = {}
    for track in tracks:
        columns = [
            _seconds(recording, name, track) for name in ("cpu_cores", "io_pressure_ratio", "cpu_pressure_ratio")
        ]
        if track.gpu.node in hosts or all(column is None for column in columns):
            continue
        t = recording.t[track.rows]
        limits = _column(recording, "cpu_limit_cores", track)
        hosts[track.gpu.node] = ColumnSeries(
            np.insert(t, 0, t[0] - track.lengths[0]),
            [None if c is None else np.insert(np.cumsum(np.nan_to_num(c)), 0, 0.0) for c in columns],
            [np.insert(limits, 0, limits[0]) if present(limits) else None],
        )
    return hosts


def _memory_highs(gpus: Iterable[Series], start: float, until: float) -> list[Highs]:
    """Of each GPU, within (start, until], as `window_usage.memory_grew_at` looks at them."""
    found = []
    for series in gpus:
        highs = Highs()
        for i in range(bisect_right(series.times, start), bisect_right(series.times, until)):
            used = series.gauge_at(1, i)
            if used is not None:
                highs.add(series.times[i], used, series.gauge_at(2, i))
        found.append(highs)
    return found


def _column(recording: Recording, name: str, track: Track) -> Floats:
    column = recording.numbers.get(name)
    return np.full(len(track.rows), math.nan) if column is None else column[track.rows]


def _seconds(recording: Recording, name: str, track: Track) -> Floats | None:
    """A rate over the rows as what accumulates in each; None where the track does not know it at all."""
    values = _column(recording, name, track)
    return values * track.lengths if present(values) else None


def _gauge(recording: Recording, name: str, track: Track, apart: np.typing.NDArray[np.bool_]) -> Floats | None:
    values = _column(recording, name, track)
    return _with_starts(values, math.nan, apart) if present(values) else None


def _with_starts(values: Floats, starts: Floats | float, apart: np.typing.NDArray[np.bool_]) -> Floats:
    """The values, each one that stands apart with its value at the start of its row before it."""
    places = np.arange(len(values)) + np.cumsum(apart)
    merged = np.empty(len(values) + int(apart.sum()))
    merged[places] = values
    merged[places[apart] - 1] = starts if isinstance(starts, float) else starts[apart]
    return merged
