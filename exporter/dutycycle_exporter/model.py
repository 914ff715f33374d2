"""What the NVML child tells the exporter, and what attribution adds to it: immutable, in base units, free of I/O.

Times are Unix seconds, durations wall seconds, ratios 0..1. None is "not known", which is never zero. What was measured
between two instants has those of `elapsed()`: a clock that nobody sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time for which a GPU's duty cycle is known: (start, end], by the clock of `Snapshot.at`."""

    start: float
    end: float
    utilization: float


@dataclass(frozen=True, slots=True)
class Process:
    """A process with a context on a GPU. `utilization` is its share of the device's time since the previous snapshot,
    and `memory_activity` the share in which it read or wrote the device's memory. `mps_client`: it works through a
    server of MPS, which is a process on the device, too.
    """

    pid: int
    memory: float | None = None
    utilization: float | None = None
    memory_activity: float | None = None
    mps_client: bool = False


@dataclass(frozen=True, slots=True)
class FinishedProcess:
    """A process that has ended, as NVML's accounting mode remembers it: means over its life, and its peak memory.

    `start` is in Unix seconds, `seconds` its life's length.
    """

    pid: int
    start: float
    seconds: float
    utilization: float | None = None
    memory_activity: float | None = None
    max_memory: float | None = None


Counts = tuple[tuple[str, float], ...]
"""Values by name (of a reason, a type, a direction, a unit); what is not known is not there."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What GPM measured between two samples: means over (start, end], by the clock of `Snapshot.at`, as ratios by unit
    (`contract.ACTIVITY`).

    `pcie` and `nvlink` are bytes per second by direction (rx, tx).
    """

    start: float
    end: float
    units: Counts = ()
    pcie: Counts = ()
    nvlink: Counts = ()


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU in a snapshot, or one MIG instance of a GPU. `spans` are new since the previous snapshot, in order, and
    do not overlap.

    `uuid` and `index` are always the physical GPU's. An instance has its own UUID in `mig`, its profile's name in
    `mig_profile` ("1g.10gb"), in `slices` the share of the GPU's compute slices that it has, and NVML's numbers of its
    GPU instance and compute instance, by which some schedulers name it.

    Counters are the device's own, which begin anew when the driver does: `throttle` in seconds by reason, `ecc_errors`,
    `remapped_rows` and `retired_pages` by type, bytes by direction (rx, tx: as the device sees it), `cycles` by
    `contract.CYCLES`. `carried` names those that are as an earlier turn read them, by field and label ("" without one),
    and `stopped` those that do not count on: a recording says nothing of the time, or the counter is stuck. What is
    missing without that was not read, and counts on. `counted_at` is when they were read, by the clock of
    `Snapshot.at`; None: at its instant.
    `processes` are those with a compute context, `graphics` those that only draw (OpenGL, Vulkan, a display's server);
    `finished` are processes that ended, newest last.
    """

    uuid: str
    index: int
    model: str
    minor: int | None = None
    pci_bus_id: str = ""
    mig_mode: str = ""
    mig: str = ""
    mig_profile: str = ""
    slices: float = 1.0
    gpu_instance: int | None = None
    compute_instance: int | None = None
    spans: tuple[Span, ...] = ()
    utilization: float | None = None
    memory_activity: float | None = None
    encoder_utilization: float | None = None
    decoder_utilization: float | None = None
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
    graphics: tuple[Process, ...] = ()
    throttle: Counts = ()
    ecc_errors: Counts = ()
    remapped_rows: Counts = ()
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pages: Counts = ()
    sram_threshold_exceeded: bool | None = None
    recovery_action: int | None = None
    pcie_replays: float | None = None
    pcie_bytes: Counts = ()
    nvlink_bytes: Counts = ()
    cycles: Counts = ()
    activity: Activity | None = None
    counted_at: float | None = None
    carried: frozenset[tuple[str, str]] = frozenset()
    stopped: frozenset[tuple[str, str]] = frozenset()
    finished: tuple[FinishedProcess, ...] = ()

    @property
    def key(self) -> str:
        """What tells it from every other device: the UUID of the instance, or of the whole GPU."""
        return self.mig or self.uuid


@dataclass(frozen=True, slots=True)
class Xid:
    """A critical error that the driver reported at `t` (Unix seconds)."""

    gpu_uuid: str
    code: int
    t: float


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
    """A workload holds a device: a GPU or a MIG instance, by its UUID. `start` is when that began, None where it is not
    known. `containers` are those of a pod that have it, by name, sorted; none where nobody tells.
    """

    device: str
    workload: Workload
    start: float | None = None
    first_process: float | None = None
    containers: tuple[str, ...] = ()


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
class ProcessOwner:
    """Whose a process is, for people: user and command by name; empty where not known."""

    user: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Whose every GPU is at one instant.

    `pids` tells which workload a process on a GPU belongs to. `unresolved` are those on a GPU of which that could not
    be found out; one that is in neither is known to be no workload's. `failures` counts what could not be used in
    this resolution, by (source, reason). `people` names the processes on GPUs, where that was asked for. `labels` are
    those that operators let through, by workload's id. `displaced` are devices with workloads that would hold them, did
    not others for a time: pods in which Slurm runs a job, and a job in which the node's kubelet runs. While it is
    `settling`, just after a start, others may hold a device of whom nobody has told yet.
    """

    allocations: tuple[Allocation, ...] = ()
    pids: Mapping[int, str] = field(default_factory=dict)
    unresolved: frozenset[int] = frozenset()
    hosts: tuple[HostReading, ...] = ()
    failures: Mapping[tuple[str, str], int] = field(default_factory=dict)
    people: Mapping[int, ProcessOwner] = field(default_factory=dict)
    labels: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    displaced: frozenset[tuple[str, str]] = frozenset()
    settling: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the child read in one turn at `t`. `failures` (call, error), `dropped` (reason) and `clamped` (unit of
    GPM, taken as 1) count this turn's, and so do `xids`.

    `gpus` are in NVML's order, a GPU's MIG instances right after it. `visible` is how many GPUs NVML shows, also those
    of which nothing could be read, but not those that are left out; None where it does not tell.
    `ownership` is set only by a replay, whose recording says whose the GPUs were.
    `elapsed` is what `elapsed()` was at `t`; None where the time of day is never set.
    `slow` are the indexes of GPUs that are asked only now and then, as they take too long. `excluded` are the PCI
    addresses (0000:1b:00.0) of those that the driver was told to leave out; None where it does not tell.
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
    clamped: Mapping[str, int] = field(default_factory=dict)
    xids: tuple[Xid, ...] = ()
    ownership: Ownership | None = None
    elapsed: float | None = None
    slow: tuple[int, ...] = ()
    excluded: tuple[str, ...] | None = None

    @property
    def at(self) -> float:
        """Its instant, in seconds by a clock that nobody sets."""
        return self.t if self.elapsed is None else self.elapsed


DeviceIndex = tuple[int, int]
"""A GPU that may not say who it is: its index in NVML, of so many. Of another number, an index means another GPU."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The child's message that it is about to make calls about a GPU, and how many others it has read in the same turn
    that nobody suspects. No other message may follow. `anew`: NVML may have to bring the GPU up.
    """

    gpu: DeviceIndex
    read: int
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Returned:
    """The child's message that the calls about the last GPU returned. The next calls are about no GPU."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The child's message that NVML cannot be used: why, in a fixed word for metrics and a sentence for people."""

    t: float
    reason: str
    text: str
