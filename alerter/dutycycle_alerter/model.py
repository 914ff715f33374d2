"""What the alerter reasons about: GPUs, jobs, and the evidence of what a job's GPUs did over a window.

Everything here is immutable and free of I/O. Seconds are wall seconds, ratios are 0..1, timestamps are Unix seconds,
and None is "not measured", which is never the same as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

_MOST_WORKLOADS = 1000


class JobKind(StrEnum):
    """How a job is used; it decides which rules apply."""

    BATCH = "batch"
    INTERACTIVE = "interactive"
    SERVING = "serving"


@dataclass(frozen=True, slots=True, order=True)
class Gpu:
    """One GPU or MIG instance. `index` is NVML's, a string because a recording may name GPUs as it likes.

    `workload` is the pod that holds it, as the exporters name that, where a job is made of pods.
    """

    node: str
    index: str
    uuid: str = ""
    mig: str = ""
    model: str = ""
    workload: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """Its name among the GPUs of a job: node, UUID (the index where there is none) and MIG instance."""
        return gpu_key(self.node, self.uuid or self.index, self.mig)

    @property
    def label(self) -> str:
        """Short name for people: `node:index`, after the pod that holds it, where the job is made of pods."""
        place = f"{self.node}:{self.index}" if self.node else self.index
        return f"{self.pod} ({place})" if self.workload else place

    @property
    def pod(self) -> str:
        """The pod's name; empty where no pod holds it."""
        return self.workload.split("/")[2] if self.workload.count("/") > 2 else self.workload


def gpu_key(node: str, uuid: str, mig: str) -> str:
    """Return the name of a GPU or MIG instance among those of a job."""
    return f"{node}/{uuid}/{mig}"


@dataclass(frozen=True, slots=True)
class Job:
    """What people know as a job: a Slurm job, a pod or the owner of pods, a shell job on a workstation.

    `start` is when the allocation began (since when it was seen, where `start_told` is false: nobody tells it then);
    `first_process` when a process of it first held a GPU (None: none yet, or not known). What only a scheduler knows is
    empty or None without one: `name` (anybody's text), `qos`, `time_limit` (seconds), `cpus` and `memory` (bytes) as
    requested for the whole job, `labels` of pods, `owner` the kind of object that it is (`PyTorchJob`, `Pod`) and
    `owner_group` the API group of that (empty: the core's), `troubles` sentences on what is wrong with it.
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
    name: str = ""
    qos: str = ""
    time_limit: float | None = None
    cpus: float | None = None
    memory: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    start_told: bool = True
    owner: str = ""
    owner_group: str = ""
    troubles: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The job's nodes, each once, in order."""
        return tuple(dict.fromkeys(gpu.node for gpu in self.gpus))

    @property
    def began(self) -> float:
        """When its first process began; when it got its GPUs, where that is not known, or not yet: a process from
        before the start that is told was one of a former run.
        """
        if self.first_process is None or (self.start_told and self.first_process < self.start):
            return self.start
        return self.first_process


def latest_workloads(before: tuple[str, ...], job: Job) -> tuple[str, ...]:
    """Those that a job is or was made of, as far as they are remembered: the newest."""
    now = tuple(dict.fromkeys(gpu.workload for gpu in job.gpus if gpu.workload))
    if not now or set(now) <= set(before):
        return before
    return (*(one for one in before if one not in now), *now)[-_MOST_WORKLOADS:]


def job_id(cluster: str, workload: str) -> str:
    """The id of a workload's job: clusters count their jobs alike. `cluster` is empty where there is only one."""
    return f"{cluster}/{workload}" if cluster else workload


def workload_of(job_id: str, cluster: str) -> str:
    """The workload in a job's id, as the exporters of the cluster name it."""
    return job_id.removeprefix(f"{cluster}/") if cluster else job_id


LOW_SAMPLE = 0.15
"""Samples of the duty cycle up to here are low: a bound of the exporter's histogram."""


@dataclass(slots=True)  # not frozen: an analysis makes millions, and frozen ones take three times as long
class Usage:
    """What one GPU did for one job over a window: increases of the ownership counters, and gauges over the window.

    `share` is the job's share of the GPU (1 for a whole one). `allocated`, `observed` and `busy` are share x time;
    `observed` is the part for which the duty cycle was measured. `gap_*` are seconds spent in idle gaps by the gap's
    length (2, 30, 600 s are the bounds), `low` those at a duty cycle of at most `LOW_SAMPLE`, idle or not; on a shared
    GPU all of these are the device's. `memory_used` (bytes) and `processes` are the window's maxima; `energy` is
    joules. `sm`, `tensor` and `dram` are seconds in which that unit worked, from GPM; `throttle_thermal` seconds with
    the clocks held down by heat or power brake; all share x time. `link_bytes` went over NVLink, or PCIe where there is
    none. `power_limit` and `idle_power` are watts; the latter is learned per model. `memory_baseline` is the part of
    `memory_used` that the driver holds on a GPU without a process. `measured_from` is the instant from
    which the GPU was measured, where that lies within the window and the source has it.
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
    sm: float | None = None
    tensor: float | None = None
    dram: float | None = None
    throttle_thermal: float | None = None
    link_bytes: float | None = None
    power_limit: float | None = None
    idle_power: float | None = None
    low: float | None = None
    memory_baseline: float | None = None
    measured_from: float | None = None

    @property
    def utilization(self) -> float | None:
        """Mean duty cycle over the measured time, 0..1; None where nothing was measured.

        A sharer that does more than its share of the work is at 1: its busy time exceeds what it was observed for.
        """
        return min(1.0, self.busy / self.observed) if self.observed > 0 else None


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
class MemoryPeak:
    """The most GPU memory in use on any GPU of a job: `used` in bytes, and `share` of the GPU's, 0..1. On GPUs of
    different sizes the two may be of different GPUs.
    """

    used: float
    share: float


def highest(peaks: Sequence[MemoryPeak]) -> MemoryPeak:
    """Of all of these."""
    return MemoryPeak(max(peak.used for peak in peaks), max(peak.share for peak in peaks))


@dataclass(frozen=True, slots=True)
class JobEvidence:
    """All that is known of one job at the instant `at`.

    `window` computes the evidence of the last n seconds on demand: most passes need two of the four windows. It can do
    so for up to the `longest` (wall seconds; None: any), beyond which the GPUs may have been others'. `watched_from` is
    when the source began to see the job.
    `memory_grew_at` is when the job's GPU memory came close to its highest, within its first minutes (a job still
    loading is not judged). `memory_peak` is of all the time since the source began to see the job; None where a part of
    that was not read, or where any window can be asked for instead. `ended` is when the job is known to have ended;
    `visible` tells whether its exporters answer, so that an absent job is not taken for an ended one; `unseen` says why
    they are not enough, where it is not that they do not answer. `left_out` is how many GPUs the job has that are not
    judged, because they have only just joined it; `others_work` whether one of these was seen to work.
    `workloads` are the names by which exporters know its parts; only a scheduler that resolved the job's owner sets
    them.
    """

    job: Job
    at: float
    window: Callable[[float], WindowEvidence] = field(repr=False, compare=False)
    watched_from: float
    memory_grew_at: float | None = None
    memory_peak: MemoryPeak | None = None
    ended: float | None = None
    visible: bool = True
    recent: tuple[Consumption, ...] = ()
    longest: float | None = None
    unseen: str = ""
    left_out: int = 0
    others_work: bool = False
    workloads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Consumption:
    """GPU-seconds and joules of one job on GPUs of one model since the previous pass, for ledger and incidents.

    `at` is an instant of the time that it belongs to; None for that of the pass. `since` and `until` are between which
    instants it was consumed; None for those of the previous pass and of this one. `idle` is the part of the waste on
    GPUs that did nothing (`usage.idle_seconds`); None where nothing was measured. `spread` is the part of `allocated`
    in which the job was on more nodes than it needs; None where that is not known. `by_gpu` is the waste of each GPU
    by its `Gpu.key`.
    """

    model: str
    allocated: float
    observed: float
    busy: float
    energy: float | None = None
    at: float | None = None
    idle: float | None = None
    spread: float | None = None
    since: float | None = None
    until: float | None = None
    by_gpu: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def wasted(self) -> float:
        """GPU-seconds that were measured and not busy."""
        return max(0.0, self.observed - self.busy)


@dataclass(frozen=True, slots=True)
class DeviceWindow:
    """What a GPU itself was like over a window, whoever held it. None is not known.

    `memory_used` is the least memory in use (bytes), `processes` the most processes, `allocated` whether any workload
    held it at any time; `throttle_thermal` and `throttle_power` are shares of the time, `utilization` the mean, 0..1.
    """

    length: float
    memory_used: float | None = None
    processes: float | None = None
    allocated: bool | None = None
    throttle_thermal: float | None = None
    throttle_power: float | None = None
    utilization: float | None = None


@dataclass(frozen=True, slots=True)
class GpuEvidence:
    """One GPU's health at the instant `at`.

    `visible` tells whether its exporter answers and shows it: without that nothing else is known. `xids` are the times
    at which XIDs were last reported, by number. `recovery_action` is NVML's (0: none); `remap_failed` whether a row of
    memory could not be replaced. `memory_used` is the present reading, `memory_baseline` what a free GPU of the model
    shows as used (learned; None where no free one was seen). `jobs` are those that hold it now.
    """

    gpu: Gpu
    at: float
    window: Callable[[float], DeviceWindow] = field(repr=False, compare=False)
    visible: bool = True
    watched_from: float = 0.0
    xids: Mapping[int, float] = field(default_factory=dict)
    recovery_action: float | None = None
    remap_failed: bool | None = None
    memory_used: float | None = None
    memory_total: float | None = None
    memory_baseline: float | None = None
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """One node's GPUs at the instant `at`: how many the PCI bus shows and how many NVML shows; None is not known."""

    node: str
    at: float
    expected: float | None = None
    visible: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a source knows at one instant.

    `unowned` are GPUs whose holder the metrics do not tell, each as a job of its own: a scheduler may know whose they
    are (`sources.claims`). `accounted_until` is the instant up to which `JobEvidence.recent` counts, from that of the
    pass before; None: that of the pass. `accounted_from` is the latter as the source knows it, 0 before any pass was
    kept; None: it does not count from there. `accounted_total` is what all counters of allocated seconds said together
    at `accounted_until`; None where that is not known.
    """

    jobs: Sequence[JobEvidence] = ()
    gpus: Sequence[GpuEvidence] = ()
    nodes: Sequence[NodeEvidence] = ()
    unowned: Sequence[JobEvidence] = ()
    accounted_until: float | None = None
    accounted_from: float | None = None
    accounted_total: float | None = None
