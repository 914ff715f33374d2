"""What the NVML child tells the exporter, and what attribution adds to it: immutable, in base units, free of I/O.

Times are Unix seconds, durations wall seconds, ratios 0..1. None is "not known", which is never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time for which a GPU's duty cycle is known: (start, end]."""

    start: float
    end: float
    utilization: float


@dataclass(frozen=True, slots=True)
class Process:
    """A compute context on a GPU. `utilization` is its share of the device's time since the previous snapshot."""

    pid: int
    memory: float | None = None
    utilization: float | None = None


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU in a snapshot. `spans` are new since the previous snapshot, in order, and do not overlap."""

    uuid: str
    index: int
    model: str
    minor: int | None = None
    pci_bus_id: str = ""
    mig_mode: str = ""
    spans: tuple[Span, ...] = ()
    utilization: float | None = None
    memory_activity: float | None = None
    memory_used: float | None = None
    memory_total: float | None = None
    memory_reserved: float | None = None
    power: float | None = None
    power_limit: float | None = None
    energy: float | None = None
    temperatures: tuple[tuple[str, float], ...] = ()
    fan: float | None = None
    clocks: tuple[tuple[str, float], ...] = ()
    performance_state: int | None = None
    processes: tuple[Process, ...] | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """Whose work it is: the labels of an ownership series, beside the device's and the cluster."""

    id: str
    scheduler: str
    namespace: str = ""
    pod: str = ""
    job_id: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A workload holds a GPU. `start` is when that began, None where it is not known."""

    gpu_uuid: str
    workload: Workload
    start: float | None = None
    first_process: float | None = None


@dataclass(frozen=True, slots=True)
class HostReading:
    """A workload's cgroup on this node: counters in seconds since the cgroup began; None where the kernel gives
    none.
    """

    workload: Workload
    cpu_seconds: float | None = None
    cpu_limit: float | None = None
    io_pressure: float | None = None
    cpu_pressure: float | None = None
    memory_pressure: float | None = None


@dataclass(frozen=True, slots=True)
class Ownership:
    """Whose every GPU is at one instant.

    `pids` tells which workload a process on a GPU belongs to. `unresolved` are those on a GPU of which that could not
    be found out; one that is in neither is known to be no workload's. `failures` counts what could not be used in
    this resolution, by (source, reason).
    """

    allocations: tuple[Allocation, ...] = ()
    pids: Mapping[int, str] = field(default_factory=dict)
    unresolved: frozenset[int] = frozenset()
    hosts: tuple[HostReading, ...] = ()
    failures: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the child read in one turn at `t`. `failures` (call, error) and `dropped` (reason) count this turn's.

    `visible` is how many GPUs NVML shows, also those of which nothing could be read; None where it does not tell.
    `ownership` is set only by a replay, whose recording says whose the GPUs were.
    """

    t: float
    gpus: tuple[GpuReading, ...]
    visible: int | None = None
    driver_version: str = ""
    cuda_version: str = ""
    nvml_version: str = ""
    duration: float = 0.0
    failures: Mapping[tuple[str, str], int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    ownership: Ownership | None = None


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The child's message that NVML cannot be used: why, in a fixed word for metrics and a sentence for people."""

    t: float
    reason: str
    text: str
