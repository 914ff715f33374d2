"""Recorded runs as jobs of a fleet in a box: where and when each is played, and the course that it takes.

What a recording says is averages over 10 to 30 s: a GPU is played at that level throughout, and what it did within is
not known. A run's processes are those that it must have had (the recorder missed those of other ranks): one on each
GPU, with the recorded memory, from the beginning to the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.box.model import Job, Phase, Scenario
from benchmarks.real.runs import Row, Run, Track
from tests.fakes.cgroup import Use
from tests.fakes.nvml import H100, Curve, GpuProcess, Load, Piecewise

GPUS = 8
FIRST_JOB = 1000
LEAD = 120.0
"""Seconds before the first run."""
REST = 300.0
"""Seconds for which a GPU is free between two runs."""
MEMORY_STEP = 0.005
"""Of the device's memory: smaller growth is not played."""
LOADING = 1800.0
"""Seconds in which memory that grows is played: later growth moves no job's grace."""
CPU_CORES = 1.0


def schedule(runs: Sequence[Run], nodes: int) -> Scenario:
    """All runs on so many nodes, long ones first, each as soon as its GPUs are free."""
    names = tuple(f"real{number:02d}" for number in range(nodes))
    free = {name: [LEAD] * GPUS for name in names}
    jobs = []
    for number, run in enumerate(longest_first(runs)):
        count = len(run.tracks)
        node = min(names, key=lambda name: (sorted(free[name])[count - 1], name))
        chosen = sorted(sorted(range(GPUS), key=lambda gpu: (free[node][gpu], gpu))[:count])
        start = max(free[node][gpu] for gpu in chosen)
        for gpu in chosen:
            free[node][gpu] = start + run.length + REST
        jobs.append(
            Job(
                number=FIRST_JOB + number,
                user=run.user,
                account="",
                partition="batch",
                mechanism=run.workload,
                parameters={},
                mixed=False,
                seed=0,
                start=start,
                end=start + run.length,
                gpus=tuple((node, gpu) for gpu in chosen),
            )
        )
    length = max((job.end for job in jobs), default=0.0) + REST
    return Scenario(0, names, GPUS, length, tuple(sorted(jobs, key=lambda job: job.start)), parameters="recorded runs")


def longest_first(runs: Iterable[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: (-run.length, run.workload))


@dataclass(frozen=True)
class Courses:
    """The course of each run by its name; it can be sent to another process."""

    runs: Mapping[str, Run]

    def __call__(self, job: Job) -> tuple[Phase, ...]:
        return course(self.runs[job.mechanism])


def course(run: Run) -> tuple[Phase, ...]:
    """Levels and power as recorded, memory as high as it ever was until then; a phase begins where that of a GPU grew.

    Memory that goes down and comes back is not played: grace, the one thing here that depends on when memory changes,
    asks for new highs alone, and a scrape that misses one would end it at another moment. A GPU whose rows begin after,
    or end before, the run's has a process there, and does nothing.
    """
    cuts = sorted({0.0, *(cut for track in run.tracks for cut in _memory_cuts(track, run.start))})
    host = (Use(cpu_cores=CPU_CORES),)
    return tuple(
        Phase(since, tuple(_load(track, place, run, since, until) for place, track in enumerate(run.tracks)), host)
        for since, until in pairwise([*cuts, run.length])
    )


def _load(track: Track, place: int, run: Run, since: float, until: float) -> Load:
    """Of the part of the run from `since` to `until`, in seconds of it."""
    levels = [(track.start - run.start, 0.0)] if track.start > run.start else []
    levels += [(row.t - run.start, min(1.0, row.utilization)) for row in track.rows]
    levels += [(run.length, 0.0)] if track.end < run.end else []
    powers = [(row.t - run.start, row.power) for row in track.rows]
    watts = _part([(t, power) for t, power in powers if power is not None], since, until)
    known = all(power is not None for _, power in powers)
    return Load(
        Piecewise(*(_part(levels, since, until) or ([], [0.0]))),
        [GpuProcess(1 + place, _memory(track, run.start + since))],
        power_watts=Curve(*watts) if watts and known else None,
    )


def _part(values: Sequence[tuple[float, float]], since: float, until: float) -> tuple[list[float], list[float]] | None:
    """Of values that hold until given times those of a part: when each ends, but for the last, and the values."""
    ends = [(end - since, value) for end, value in values if end > since]
    last = next((place for place, (end, _) in enumerate(ends) if end >= until - since), len(ends) - 1)
    kept = ends[: last + 1]
    return ([end for end, _ in kept[:-1]], [value for _, value in kept]) if kept else None


def _memory_cuts(track: Track, start: float) -> Iterable[float]:
    """Seconds of the run at which the GPU's memory becomes higher than it ever was."""
    shares = [(row, share) for row in track.rows if (share := _share(row)) is not None]
    held: float | None = None
    for row, share in shares:
        if held is None:
            held = share
        elif share - held > MEMORY_STEP and row.t - start < LOADING:
            held = share
            yield row.t - start


def _memory(track: Track, at: float) -> int:
    """Bytes on the GPU that plays it: the same share of its memory as in the highest row until then, or the first."""
    known = [(row.t, share) for row in track.rows if (share := _share(row)) is not None]
    shares = [share for t, share in known if t <= at + 1e-6] or [share for _, share in known[:1]]
    return round(max(shares, default=0.0) * H100.memory)


def _share(row: Row) -> float | None:
    if row.memory_used is None or not row.memory_total:
        return None
    return min(0.98, row.memory_used / row.memory_total)
