"""What the alerter reasons about: GPUs, jobs, and the evidence of what a job's GPUs did over a window.

Everything here is immutable and free of I/O. Seconds are wall seconds, ratios are 0..1, timestamps are Unix seconds,
and None is "not measured", which is never the same as zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class JobKind(StrEnum):
    """How a job is used; it decides which rules apply."""

    BATCH = "batch"
    INTERACTIVE = "interactive"
    SERVING = "serving"


@dataclass(frozen=True, slots=True, order=True)
class Gpu:
    """One GPU or MIG instance. `index` is NVML's, a string because a recording may name GPUs as it likes."""

    node: str
    index: str
    uuid: str = ""
    mig: str = ""
    model: str = ""

    @property
    def label(self) -> str:
        """Short name for people: `node:index`."""
        return f"{self.node}:{self.index}" if self.node else self.index


@dataclass(frozen=True, slots=True)
class Job:
    """What people know as a job: a Slurm job, a pod (later its owner), a shell job on a workstation.

    `start` is when the allocation began; `first_process` when a process of it first held a GPU (None: none yet, or not
    known).
    """

    id: str
    gpus: tuple[Gpu, ...]
    start: float
    first_process: float | None = None
    kind: JobKind = JobKind.BATCH
    cluster: str = ""
    scheduler: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    namespace: str = ""
    pod: str = ""
    job_id: str = ""
    expect_uneven: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        """The job's nodes, each once, in order."""
        return tuple(dict.fromkeys(gpu.node for gpu in self.gpus))


def job_id(cluster: str, workload: str) -> str:
    """The id of a workload's job: clusters count their jobs alike. `cluster` is empty where there is only one."""
    return f"{cluster}/{workload}" if cluster else workload


def workload_of(job_id: str, cluster: str) -> str:
    """The workload in a job's id, as the exporters of the cluster name it."""
    return job_id.removeprefix(f"{cluster}/") if cluster else job_id


@dataclass(frozen=True, slots=True)
class Usage:
    """What one GPU did for one job over a window: increases of the ownership counters, and gauges over the window.

    `share` is the job's share of the GPU (1 for a whole one). `allocated`, `observed` and `busy` are share x time;
    `observed` is the part for which the duty cycle was measured. `gap_*` are seconds spent in idle gaps by the gap's
    length (2, 30, 600 s are the bounds). `memory_used` (bytes) and `processes` are the window's maxima; `energy` is
    joules.
    """

    allocated: float
    observed: float
    busy: float
    gap_lt2: float | None = None
    gap_2to30: float | None = None
    gap_30to600: float | None = None
    gap_ge600: float | None = None
    energy: float | None = None
    memory_used: float | None = None
    memory_total: float | None = None
    processes: float | None = None
    share: float = 1.0

    @property
    def utilization(self) -> float | None:
        """Mean duty cycle over the measured time, 0..1; None where nothing was measured."""
        return self.busy / self.observed if self.observed > 0 else None


@dataclass(frozen=True, slots=True)
class HostUsage:
    """What a job's processes did on the CPUs of its nodes over a window, all nodes together.

    `cpu_cores` is the mean number of busy cores; `cpu_of_limit` the highest ratio of a node's cores to their limit
    there; the pressures are the highest share of time on a node in which some task waited for I/O or a CPU (PSI
    "some").
    """

    cpu_cores: float | None = None
    cpu_of_limit: float | None = None
    io_pressure: float | None = None
    cpu_pressure: float | None = None


@dataclass(frozen=True, slots=True)
class WindowEvidence:
    """One job over the last `length` seconds; `gpus` has one entry per GPU, in the order of `Job.gpus`."""

    length: float
    gpus: tuple[Usage, ...]
    host: HostUsage = HostUsage()


@dataclass(frozen=True, slots=True)
class JobEvidence:
    """All that is known of one job at the instant `at`.

    `window` computes the evidence of the last n seconds on demand: most passes need two of the four windows.
    `watched_from` is when the source began to see the job. `memory_grew_at` is when the job's GPU memory last reached
    a new high, within its first minutes (a job still loading is not judged). `ended` is when the job is known to have
    ended; `visible` tells whether its exporters answer, so that an absent job is not taken for an ended one.
    """

    job: Job
    at: float
    window: Callable[[float], WindowEvidence] = field(repr=False, compare=False)
    watched_from: float
    memory_grew_at: float | None = None
    ended: float | None = None
    visible: bool = True
    recent: tuple[Consumption, ...] = ()


@dataclass(frozen=True, slots=True)
class Consumption:
    """GPU-seconds and joules of one job on GPUs of one model since the previous pass, for ledger and incidents."""

    model: str
    allocated: float
    observed: float
    busy: float
    energy: float | None = None

    @property
    def wasted(self) -> float:
        """GPU-seconds that were measured and not busy."""
        return max(0.0, self.observed - self.busy)
