"""What a scrape shows of GPUs and of the workloads that hold them: immutable, made after every snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from dutycycle_exporter.model import GpuReading, Ownership, Snapshot, Workload


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One GPU as it is shown. `power` is the mean since the previous snapshot where the device counts its energy.

    `busy` and `observed` are None as long as nothing could be measured.
    """

    reading: GpuReading
    busy: float | None
    observed: float | None
    last_busy: float | None
    power: float | None


@dataclass(frozen=True, slots=True)
class OwnedView:
    """One workload on one GPU as it is shown. `share` is None once the allocation has ended.

    `gaps` are seconds by `GAP_LENGTHS`; `buckets` seconds by `UTILIZATION_BUCKETS` and above, not cumulated.
    """

    gpu_uuid: str
    index: int
    model: str
    workload: Workload
    share: float | None
    start: float | None
    first_process: float | None
    memory: float | None
    processes: int | None
    allocated: float
    observed: float
    busy: float
    energy: float | None
    gaps: tuple[float, ...]
    buckets: tuple[float, ...]
    weighted_utilization: float


@dataclass(frozen=True, slots=True)
class View:
    """Everything, at one instant."""

    snapshot: Snapshot
    ownership: Ownership
    devices: tuple[DeviceView, ...]
    owned: tuple[OwnedView, ...]
