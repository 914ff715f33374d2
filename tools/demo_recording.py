"""The bundled recording that `dutycycle up` plays where there is no NVIDIA driver. It is simulated, and says so.

Nobody measured it: jobs are given as mechanisms (the NVML double's patterns: so long a step, so much of it computed),
their exact busy time is sampled at NVML's 6 Hz and in whole percent, and the exporter's own accounting turns the
samples into the rows that `dutycycle record` would have written. So the rows have every regularity that the rules look
at, and no figure in them was drawn by hand. A recording of real runs takes its place as soon as there is one.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from dutycycle_alerter.recordings.format import COLUMNS
from dutycycle_alerter.recordings.writing import line
from dutycycle_exporter.accounting import Accounts
from dutycycle_exporter.contract import GAP_LENGTHS
from dutycycle_exporter.model import Allocation, GpuReading, Ownership, Snapshot, Span, Workload
from dutycycle_exporter.views import OwnedView, View
from tests.fakes.nvml import H200, IDLE, Curve, Load, Pattern, Paused, Piecewise, Then
from tests.fakes.nvml.gpu import gpu_uuid
from tests.fakes.nvml.timeline import GpuProcess

START = 1_768_464_000
"""2026-01-15 08:00 UTC."""
LENGTH = 3 * 3600
INTERVAL = 10
SAMPLES = 6 * INTERVAL
NODES = ("gpu01", "gpu02")
GPUS = range(8)

GIB = 2**30
MINUTE = 60


@dataclass(frozen=True)
class Host:
    """What a job does to the CPUs of each of its nodes, over the job's time."""

    limit: float
    cores: Curve
    io: Curve
    cpu: Curve


def steady(seed: int, level: float, spread: float, every: float = 20.0) -> Piecewise:
    """A level that wavers by up to `spread`, as epochs and batches differ."""
    draw = random.Random(seed)
    levels = [min(1.0, max(0.0, level + spread * (2 * draw.random() - 1))) for _ in range(int(LENGTH / every))]
    return Piecewise([every * (i + 1) for i in range(len(levels) - 1)], levels)


def starved(seed: int, seconds: float, period: float, duty: float) -> Piecewise:
    """Steps that wait for data and then compute: no two batches take equally long to load."""
    draw = random.Random(seed)
    lengths: list[float] = []
    for _ in range(round(seconds / period)):
        wait = period * (1 - duty) * (0.8 + 0.4 * draw.random())
        lengths += [wait, period * duty * (0.95 + 0.1 * draw.random())]
    return Piecewise(list(accumulate(lengths))[:-1], [float(i % 2) for i in range(len(lengths))])


def host(seed: int, limit: float, phases: Mapping[float, tuple[float, float, float]]) -> Host:
    """CPU cores, I/O pressure and CPU pressure from the given seconds of the job on, each wavering by 3 %."""
    draw = random.Random(seed)
    times = sorted({*phases, *range(0, LENGTH, MINUTE)})
    values: list[tuple[float, ...]] = []
    for t in times:
        phase = phases[max(start for start in phases if start <= t)]
        values.append(tuple(value * (1 + 0.06 * (draw.random() - 0.5)) for value in phase))
    cores, io, cpu = (Curve(times[1:], list(column)) for column in zip(*values, strict=True))
    return Host(limit, cores, io, cpu)


def on(pattern: Pattern, memory: float, *, power: float = 0.8) -> Load:
    """A process with `memory` GiB that works by a pattern."""
    return Load(pattern, [GpuProcess(1, round(memory * GIB))], power_factor=power)


EMPTY = Load(IDLE)
"""Allocated, and no process on it."""


@dataclass(frozen=True)
class Job:
    """A Slurm job from `start` to `end` (seconds of the recording)."""

    number: int
    user: str
    account: str
    about: str
    loads: Mapping[tuple[str, int], Load]
    host: Host
    start: int = 0
    end: int = LENGTH
    workload: Workload = field(init=False)

    def __post_init__(self) -> None:
        workload = Workload(f"slurm/{self.number}", "slurm", user=self.user, account=self.account)
        object.__setattr__(self, "workload", workload)


def jobs() -> list[Job]:
    """What ran on the two nodes."""
    a, b = NODES
    return [
        Job(
            48190,
            "emil",
            "climate",
            "healthy, over both nodes",
            {(a, 7): on(steady(1, 0.955, 0.02), 118), (b, 5): on(steady(2, 0.95, 0.02), 118)},
            host(3, 16, {0: (3.1, 0.01, 0.002)}),
        ),
        Job(
            48198,
            "dina",
            "nlp",
            "healthy, with a checkpoint of 60 s every 10 min",
            {(a, 6): on(Paused(steady(4, 0.97, 0.02), 540, 60), 96)},
            host(5, 16, {0: (2.4, 0.03, 0.001)}),
        ),
        Job(
            48201,
            "hana",
            "vision",
            "healthy, ends after 25 min",
            {(b, 7): on(steady(6, 0.93, 0.04), 61)},
            host(7, 16, {0: (5.0, 0.02, 0.003)}),
            end=25 * MINUTE,
        ),
        Job(
            48205,
            "chen",
            "chemistry",
            "asked for four GPUs and uses two",
            {
                (a, 2): on(steady(8, 0.93, 0.03), 44),
                (a, 3): on(steady(9, 0.92, 0.03), 44),
                (a, 4): EMPTY,
                (a, 5): EMPTY,
            },
            host(10, 32, {0: (2.2, 0.0, 0.0)}),
            end=150 * MINUTE,
        ),
        Job(
            48210,
            "ana",
            "bio",
            "a notebook that was used for four minutes",
            {(a, 0): on(Then(steady(11, 0.3, 0.2), 4 * MINUTE, IDLE), 14)},
            host(12, 8, {0: (1.2, 0.0, 0.0), 240: (0.03, 0.0, 0.0)}),
        ),
        Job(
            48211,
            "ben",
            "bio",
            "an allocation in which nothing was started",
            {(a, 1): EMPTY},
            host(13, 8, {0: (0.002, 0.0, 0.0)}),
            start=10 * MINUTE,
            end=120 * MINUTE,
        ),
        Job(
            48214,
            "fay",
            "physics",
            "four ranks of which one has twice the work, and the others wait for it",
            {
                (b, 0): on(steady(14, 0.46, 0.04), 70, power=0.6),
                (b, 1): on(steady(15, 0.44, 0.04), 70, power=0.6),
                (b, 2): on(steady(16, 0.95, 0.02), 88),
                (b, 3): on(steady(17, 0.45, 0.04), 70, power=0.6),
            },
            host(18, 64, {0: (7.5, 0.01, 0.002)}),
            start=5 * MINUTE,
        ),
        Job(
            48216,
            "gus",
            "vision",
            "waits for its loader in steps of 2 s, until that is mended after 80 min",
            {(b, 4): on(Then(starved(19, 4800, 2.0, 0.17), 80 * MINUTE, steady(20, 0.94, 0.02)), 52)},
            host(21, 16, {0: (15.4, 0.45, 0.12), 4800: (6.8, 0.02, 0.003)}),
        ),
        Job(
            48217,
            "hana",
            "vision",
            "waits for something in steps of 0.3 s",
            {(b, 6): on(starved(22, 145 * MINUTE, 0.3, 0.17), 23)},
            host(23, 16, {0: (4.1, 0.02, 0.01)}),
            start=15 * MINUTE,
            end=160 * MINUTE,
        ),
        Job(
            48220,
            "ana",
            "bio",
            "small kernels all the time: 12 %",
            {(b, 7): on(steady(24, 0.12, 0.015), 6, power=0.5)},
            host(25, 16, {0: (1.1, 0.0, 0.0)}),
            start=30 * MINUTE,
        ),
        Job(
            48223,
            "ben",
            "bio",
            "healthy, begins where the empty allocation ended",
            {(a, 1): on(steady(26, 0.91, 0.04), 77)},
            host(27, 8, {0: (2.9, 0.01, 0.001)}),
            start=125 * MINUTE,
        ),
        Job(
            48225,
            "emil",
            "climate",
            "healthy, on the four GPUs that were wasted before",
            {(a, gpu): on(steady(30 + gpu, 0.94, 0.03), 109) for gpu in (2, 3, 4, 5)},
            host(29, 32, {0: (9.0, 0.02, 0.004)}),
            start=155 * MINUTE,
        ),
    ]


class Gpu:
    """One GPU in simulated time: what its NVML would have said."""

    def __init__(self, node: str, index: int) -> None:
        self.node, self.index, self.uuid = node, index, gpu_uuid(node, index)
        self._joules = 0.0

    def reading(self, t: int, job: Job | None) -> GpuReading:
        """At the end of the interval that ends at `t` seconds of the recording."""
        load = Load(IDLE) if job is None else job.loads[self.node, self.index]
        begin = t - INTERVAL - (0 if job is None else job.start)
        levels = [load.pattern.busy(begin + i * INTERVAL / SAMPLES) for i in range(SAMPLES + 1)]
        busy = levels[-1] - levels[0]
        swing = H200.power_limit - H200.idle_power
        self._joules += H200.idle_power * INTERVAL + busy * swing * load.power_factor
        start = START + t - INTERVAL
        spans = [
            Span(
                start + i * INTERVAL / SAMPLES,
                start + (i + 1) * INTERVAL / SAMPLES,
                # NVML says whole percents.
                int(100 * (after - before) * SAMPLES / INTERVAL + 0.5) / 100,
            )
            for i, (before, after) in enumerate(pairwise(levels))
        ]
        return GpuReading(self.uuid, self.index, H200.name, spans=tuple(spans), energy=self._joules)


class Node:
    """One node and its exporter's accounting."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._gpus = [Gpu(name, index) for index in GPUS]
        self._accounts = Accounts(hold=0.0)
        self._before: dict[tuple[str, str], OwnedView] = {}
        self._busy: dict[str, float] = {}
        start = Snapshot(START, tuple(GpuReading(gpu.uuid, gpu.index, H200.name, energy=0.0) for gpu in self._gpus))
        self._accounts.update(start, Ownership())

    def rows(self, t: int, running: Sequence[Job]) -> Iterator[dict[str, str | float | None]]:
        """The rows of the interval that ends at `t`."""
        holders = {index: job for job in running for node, index in job.loads if node == self.name}
        readings = tuple(gpu.reading(t, holders.get(gpu.index)) for gpu in self._gpus)
        allocations = tuple(
            Allocation(gpu.uuid, holders[gpu.index].workload, START + holders[gpu.index].start)
            for gpu in self._gpus
            if gpu.index in holders
        )
        view = self._accounts.update(Snapshot(START + t, readings), Ownership(allocations))
        for gpu in self._gpus:
            job = holders.get(gpu.index)
            figures = self._free(view, gpu) if job is None else self._owned(view, gpu, job, t)
            yield {
                "t": START + t,
                "node": self.name,
                "gpu": str(gpu.index),
                "gpu_uuid": gpu.uuid,
                "model": H200.name,
                "memory_total_bytes": H200.memory,
                "power_limit_watts": H200.power_limit,
                **{name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()},
            }

    def _free(self, view: View, gpu: Gpu) -> dict[str, str | float | None]:
        device = view.devices[gpu.index]
        return {
            "utilization_ratio": device.reading.spans[-1].utilization,
            "memory_used_bytes": 0,
            "power_watts": device.power,
            "processes": 0,
        }

    def _owned(self, view: View, gpu: Gpu, job: Job, t: int) -> dict[str, str | float | None]:
        key = (gpu.uuid, job.workload.id)
        now = next(owned for owned in view.owned if (owned.gpu_uuid, owned.workload.id) == key)
        before, self._before[key] = self._before.get(key), now
        observed = now.observed - (before.observed if before else 0.0)
        gaps = dict(zip(GAP_LENGTHS, now.gaps, strict=True))
        earlier = dict(zip(GAP_LENGTHS, before.gaps, strict=True)) if before else dict.fromkeys(GAP_LENGTHS, 0.0)
        processes = job.loads[self.name, gpu.index].processes
        since = t - job.start
        cores, io, cpu = (
            (curve.integral(since) - curve.integral(since - INTERVAL)) / INTERVAL
            for curve in (job.host.cores, job.host.io, job.host.cpu)
        )
        return {
            "workload": job.workload.id,
            "scheduler": "slurm",
            "user": job.user,
            "account": job.account,
            "utilization_ratio": (now.busy - (before.busy if before else 0.0)) / observed,
            "memory_used_bytes": sum(process.memory for process in processes),
            "power_watts": view.devices[gpu.index].power,
            "processes": len(processes),
            "cpu_cores": cores,
            "cpu_limit_cores": job.host.limit,
            "io_pressure_ratio": io,
            "cpu_pressure_ratio": cpu,
            "idle_gap_lt2_ratio": (gaps["lt2"] - earlier["lt2"]) / observed,
            "idle_gap_2to30_ratio": (gaps["2to30"] - earlier["2to30"]) / observed,
        }


def text() -> str:
    """The whole recording."""
    everything = jobs()
    nodes = [Node(name) for name in NODES]
    lines = [",".join(COLUMNS) + "\n"]
    for t in range(INTERVAL, LENGTH + 1, INTERVAL):
        running = [job for job in everything if job.start < t <= job.end]
        lines += [line(row) for node in nodes for row in node.rows(t, running)]
    return "".join(lines)


def compressed() -> bytes:
    """The same, as it is bundled."""
    return gzip.compress(text().encode(), mtime=0)
