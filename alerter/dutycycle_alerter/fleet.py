"""What each GPU does at this moment, in one word, and the fleet in four numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from dutycycle_alerter.views import GpuNow, Status

IDLE_BELOW = 0.005
"""A GPU whose mean utilization over the last minute is at or under this is idle now. The rules judge longer windows."""


class Doing(StrEnum):
    """Busy; allocated and idle; not allocated and not in use; or not known."""

    BUSY = "busy"
    IDLE = "idle"
    FREE = "free"
    UNKNOWN = "unknown"


def doing(gpu: GpuNow) -> Doing:
    """What a GPU does by its last scrape; unknown where that is too old, or where its utilization is not measured."""
    if gpu.stale or gpu.utilization is None:
        return Doing.UNKNOWN
    if gpu.utilization > IDLE_BELOW:
        return Doing.BUSY
    return Doing.IDLE if gpu.workloads else Doing.FREE


def unallocated_use(gpu: GpuNow) -> str:
    """Describe a GPU that no workload holds. Processes can be hidden: a busy GPU without any is not free."""
    if gpu.stale:
        return "unknown"
    if gpu.processes:
        return "not allocated"
    if gpu.utilization is None:
        return "unknown"
    return "in use by an unknown process" if doing(gpu) is Doing.BUSY else "free"


@dataclass(frozen=True, slots=True)
class GpuCounts:
    """How many GPUs do what; every GPU is counted once."""

    busy: int = 0
    idle: int = 0
    free: int = 0
    unknown: int = 0

    @property
    def total(self) -> int:
        """All GPUs."""
        return self.busy + self.idle + self.free + self.unknown


def count_gpus(gpus: Iterable[GpuNow]) -> GpuCounts:
    """The fleet in four numbers."""
    found = [doing(gpu) for gpu in gpus]
    return GpuCounts(**{word.value: found.count(word) for word in Doing})


def incomplete(status: Status) -> str:
    """Return why jobs and GPUs may be missing from a list; empty where nothing suggests that any is."""
    if status.last_pass is None:
        return "No evaluation has finished yet."
    if any(target.error for target in status.targets):
        return "A source does not answer, so jobs may hold GPUs that cannot be seen."
    return ""


def empty(status: Status, sentence: str) -> str:
    """Return the sentence about an empty list, or that it is unknown."""
    why = incomplete(status)
    return f"Unknown. {why}" if why else sentence


def gpus_incomplete(status: Status) -> str:
    """Return why GPUs may be missing from their list; empty where nothing suggests that any is."""
    if status.lists_gpus:
        return incomplete(status)
    return (
        "This list is kept only where the alerter scrapes exporters itself. With Prometheus, see the Fleet and Node "
        "dashboards in Grafana."
    )


def none_listed(status: Status) -> str:
    """Return what is shown where there is no GPU to list."""
    return empty(status, "No GPU has been seen yet.") if status.lists_gpus else gpus_incomplete(status)
