"""What ran on one GPU and when, and the exact busy time that follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .layout import COMPUTE, GPM_ACTIVITIES
from .patterns import IDLE, Curve, Pattern

ACTIVITY = {"graphics": 1.0, "sm": 0.9, "occupancy": 0.4, "tensor": 0.3, "hmma": 0.3, "fp32": 0.1}
"""What the profiling counters see of a load that says nothing about it, as shares of its busy time."""


@dataclass(frozen=True)
class GpuProcess:
    """A process with a context on a GPU. Processes of one job on one GPU share its busy time equally."""

    pid: int
    memory: int = 0
    """Bytes."""

    kind: int = COMPUTE


@dataclass(frozen=True)
class Load:
    """What a job does to one GPU."""

    pattern: Pattern = IDLE
    processes: Sequence[GpuProcess] = ()
    """None at all: the GPU is allocated and nothing runs on it."""

    power_factor: float = 0.8
    """Power while busy, as a share of the way from idle power to the limit (a hung collective: about 0.05)."""

    memory_activity: float = 0.4
    """Share of the busy time in which memory is read or written."""

    memory_growth: float = 0.0
    """Seconds of the full-length run over which the processes' memory grows from nothing to its size."""

    power_watts: Curve | None = None
    """Power itself, as a recording has it; then neither the pattern nor the factor decides it."""

    activity: Mapping[str, float] = field(default_factory=dict)
    """Of the busy time, the share that profiling counters (of layout.GPM_ACTIVITIES) count; ACTIVITY for those that are
    not named, `memory_activity` for dram."""

    activities: tuple[float, ...] = field(init=False, repr=False, compare=False)
    """The same, by metric id."""

    def __post_init__(self) -> None:
        if unknown := self.activity.keys() - set(GPM_ACTIVITIES[1:]):
            raise ValueError(f"no profiling counters for {sorted(unknown)}")
        known = {**ACTIVITY, "dram": self.memory_activity, **self.activity}
        object.__setattr__(self, "activities", tuple(known.get(name, 0.0) for name in GPM_ACTIVITIES))


@dataclass(eq=False)
class Run:
    """A job's load on one GPU from a start to an end, in microseconds since the epoch; None while it goes on."""

    job: str
    load: Load
    start_us: int
    end_us: int | None = None

    def overlaps(self, start_us: float, end_us: float) -> bool:
        return self.start_us < end_us and (self.end_us is None or self.end_us > start_us)


@dataclass
class Timeline:
    """The runs of one GPU, past ones included. Not locked: its driver is."""

    time_scale: float
    runs: list[Run] = field(default_factory=list)

    def present(self, now_us: float) -> list[Run]:
        """The runs of an instant."""
        return [run for run in self.runs if run.start_us <= now_us and (run.end_us is None or run.end_us > now_us)]

    def run_time(self, run: Run, at_us: float) -> float:
        """Seconds of the full-length run that a run has seen by an instant, which may lie outside it."""
        last = at_us if run.end_us is None else min(at_us, run.end_us)
        return max(0.0, last - run.start_us) / 1e6 * self.time_scale

    def busy_by_run(self, start_us: float, end_us: float) -> list[tuple[Run, float]]:
        """Busy wall seconds of each run in [start, end).

        Where runs overlap and together want more than the GPU, they share it in proportion, as time slices do.
        """
        present = [run for run in self.runs if run.overlaps(start_us, end_us)]
        if len(present) <= 1:
            return [(run, self._wanted(run, start_us, end_us)) for run in present]
        totals = [0.0] * len(present)
        cuts = self._cuts(present, start_us, end_us)
        for begin, end in pairwise(cuts):
            wanted = [self._wanted(run, begin, end) for run in present]
            total = sum(wanted)
            share = min(1.0, (end - begin) / 1e6 / total) if total > 0 else 1.0
            totals = [before + busy * share for before, busy in zip(totals, wanted, strict=True)]
        return list(zip(present, totals, strict=True))

    def busy_seconds(self, start_us: float, end_us: float, job: str | None = None) -> float:
        """Wall seconds in [start, end) in which the GPU was busy; with one job's work."""
        return sum(busy for run, busy in self.busy_by_run(start_us, end_us) if job is None or run.job == job)

    def _wanted(self, run: Run, start_us: float, end_us: float) -> float:
        busy = run.load.pattern.busy
        return (busy(self.run_time(run, end_us)) - busy(self.run_time(run, start_us))) / self.time_scale

    def _cuts(self, runs: list[Run], start_us: float, end_us: float) -> list[float]:
        """The instants between which no run changes its level."""
        cuts = {start_us, end_us}
        for run in runs:
            cuts.update(edge for edge in (run.start_us, run.end_us) if edge is not None and start_us < edge < end_us)
            edges = run.load.pattern.edges(self.run_time(run, start_us), self.run_time(run, end_us))
            cuts.update(run.start_us + edge * 1e6 / self.time_scale for edge in edges)
        return sorted(cuts)
