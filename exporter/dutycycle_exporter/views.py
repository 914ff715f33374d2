"""What a scrape shows of GPUs and of the workloads that hold them: immutable, made after every snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dutycycle_exporter.model import Counts, FinishedProcess, GpuReading, Ownership, Snapshot, Workload


@dataclass(frozen=True, slots=True)
class Person:
    """Whose a process is: labels of its series, empty where not known."""

    user: str = ""
    workload: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class XidView:
    """How often a GPU reported an XID since the exporter started, and when it did last. `count` is 0 while the series
    is new.
    """

    gpu_uuid: str
    code: int
    count: int
    last: float


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One GPU or MIG instance as it is shown. `power` is the mean between the last two readings of its energy where the
    device counts it.

    `busy` and `observed` are None as long as nothing could be measured. `departed` are processes that ended.
    """

    reading: GpuReading
    busy: float | None
    observed: float | None
    last_busy: float | None
    power: float | None
    departed: tuple[tuple[FinishedProcess, Person], ...] = ()


@dataclass(frozen=True, slots=True)
class OwnedView:
    """One workload on one GPU or MIG instance as it is shown. `share` is None once the allocation has ended.
    `containers` are a pod's that hold it, where that is known. `index` is None, and `model` empty, of a GPU that NVML
    never showed.

    `active` are seconds by unit, `throttle` by reason; `gaps` are seconds by `GAP_LENGTHS`, `buckets` by
    `UTILIZATION_BUCKETS` and above, not cumulated.
    """

    gpu_uuid: str
    mig: str
    index: int | None
    model: str
    workload: Workload
    containers: tuple[str, ...]
    share: float | None
    start: float | None
    first_process: float | None
    memory: float | None
    processes: int | None
    allocated: float
    observed: float
    busy: float
    energy: float | None
    active: Counts
    throttle: Counts
    gaps: tuple[float, ...]
    buckets: tuple[float, ...]
    weighted_utilization: float


@dataclass(frozen=True, slots=True)
class View:
    """Everything, at one instant. `indexes` are the GPUs', by UUID, as they last were, also of those that are lost."""

    snapshot: Snapshot
    ownership: Ownership
    devices: tuple[DeviceView, ...]
    owned: tuple[OwnedView, ...]
    xids: tuple[XidView, ...] = ()
    indexes: Mapping[str, int] = field(default_factory=dict)
