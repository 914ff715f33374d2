"""Who did how much of the work on a device that several hold: from what NVML says of its processes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from functools import cache

from dutycycle_exporter.model import Ownership, Process

NOBODY = ""
"""In the place of a workload: processes that are known to be no workload's."""

OTHERS = "others"
"""In the place of workloads that do not hold the device."""


Parts = Callable[[tuple[str, ...]], Mapping[str, float]]
"""Each holder's part of a device's work, by who holds it together."""


def division(
    processes: tuple[Process, ...] | None, ownership: Ownership, holding: Collection[str], known: Container[str]
) -> Parts:
    """How the work on a device is divided that is told now: of the time in which those hold it who do now, and of an
    earlier one, at which others of the `known` held it.

    A process that outlives its job works beside who holds the device now, but of an earlier time nobody tells who of
    those that are there now was.
    """
    now, earlier = work_of(processes, ownership, holding), work_of(processes, ownership, known)

    @cache
    def of(holders: tuple[str, ...]) -> Mapping[str, float]:
        return parts(holders, now if set(holders) == set(holding) else earlier)

    return of


def work_of(
    processes: tuple[Process, ...] | None, ownership: Ownership, holders: Container[str]
) -> dict[str, float] | None:
    """How much the processes of each holder did, nobody's and others'; None where that is not known of every process.

    Where all are one workload's it did everything: NVML need not say how much each did.
    """
    owners = {ownership.pids.get(process.pid, NOBODY) for process in processes or ()}
    if len(owners) == 1 and NOBODY not in owners:
        return {owner if owner in holders else OTHERS: 1.0 for owner in owners}
    # A server of MPS is nobody's, or of the pod that NVIDIA's device plugin runs it in, and may work for its clients.
    served = any(process.mps_client for process in processes or ())
    work: defaultdict[str, float] = defaultdict(float)
    for process in processes or ():
        owner = ownership.pids.get(process.pid, NOBODY)
        stranger = owner == NOBODY or (owner not in holders and not process.mps_client)
        doubtful = (served and stranger) or (owner == NOBODY and process.pid in ownership.unresolved)
        if process.utilization is None or (process.utilization > 0 and doubtful):
            return None
        work[owner if owner in holders or owner == NOBODY else OTHERS] += process.utilization
    return work


def parts(holders: Sequence[str], work: Mapping[str, float] | None) -> dict[str, float]:
    """Each holder's part of the device's work: that of its processes where it is known, else an equal one.

    The parts are 1 in sum, or less where those work, too, who do not hold the device. A holder without a process that
    works has 0, if others have some that do. But the only holder, if it has no process at all there, has nobody's work:
    what a container does that a job started outside its cgroup cannot be told from what a stranger does, and unknown is
    not idle.
    """
    work = work or {}
    done = {holder: work.get(holder, 0.0) for holder in holders}
    total = sum(work.get(one, 0.0) for one in (*holders, NOBODY, OTHERS))
    if len(holders) == 1 and holders[0] not in work:
        done[holders[0]] = work.get(NOBODY, 0.0)
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
