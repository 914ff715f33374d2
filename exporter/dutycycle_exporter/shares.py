"""Who did how much of the work on a device that several hold: from what NVML says of its processes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from dutycycle_exporter.model import Ownership, Process


def work_of(processes: tuple[Process, ...] | None, pids: Mapping[int, str]) -> dict[str, float] | None:
    """How much each workload's processes did; None where that is not known of every process.

    Where all are one workload's it did everything: NVML need not say how much each did.
    """
    owners = {pids.get(process.pid) for process in processes or ()}
    if len(owners) == 1 and None not in owners:
        return {owner: 1.0 for owner in owners if owner is not None}
    work: defaultdict[str, float] = defaultdict(float)
    for process in processes or ():
        if process.utilization is None or (process.utilization > 0 and process.pid not in pids):
            return None
        if process.utilization > 0:
            work[pids[process.pid]] += process.utilization
    return work


def parts(holders: Sequence[str], work: Mapping[str, float] | None) -> dict[str, float]:
    """Each holder's part of the device's work, 1 in sum: that of its processes where it is known, else an equal one.

    A holder without a process that works has 0, if others have some that do.
    """
    done = {holder: 0.0 if work is None else work.get(holder, 0.0) for holder in holders}
    total = sum(done.values())
    return {holder: mine / total if total > 0 else 1.0 / len(holders) for holder, mine in done.items()}


def processes_of(workload: str, processes: tuple[Process, ...] | None, ownership: Ownership) -> list[Process] | None:
    """A workload's of the processes on a device. None where nobody knows: one whose owner was not found may be its."""
    if processes is None or any(process.pid in ownership.unresolved for process in processes):
        return None
    return [process for process in processes if ownership.pids.get(process.pid) == workload]


def memory_of(processes: list[Process] | None) -> float | None:
    """What they hold of the device's memory, in bytes; None where that is not known of each."""
    if processes is None or any(process.memory is None for process in processes):
        return None
    return sum(process.memory or 0.0 for process in processes)
