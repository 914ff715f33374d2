"""The table of processes on one GPU, with each one's part in the utilization samples."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence

from . import layout
from .layout import Device, Process, ProcessSample
from .partition import Instance
from .timeline import GpuProcess, Run, Timeline

WHOLE_GPU = layout.NOT_AVAILABLE_U32

Present = tuple[GpuProcess, int, int]
"""A process, the memory it has by now, and its instance's place or WHOLE_GPU."""


def present(timeline: Timeline, now_us: int, place: int = WHOLE_GPU) -> list[Present]:
    """Processes of an instant with their memory by then."""
    found = []
    for run in timeline.present(now_us):
        growth = run.load.memory_growth
        grown = min(1.0, timeline.run_time(run, now_us) / growth) if growth else 1.0
        found += [(process, round(process.memory * grown), place) for process in run.load.processes]
    return found


def everywhere(timeline: Timeline, instances: Mapping[int, Instance], now_us: int) -> list[Present]:
    """Processes of a GPU and of its instances."""
    found = present(timeline, now_us)
    for place, instance in instances.items():
        found += present(instance.timeline, now_us, place)
    return found


def synchronize(device: Device, wanted: Sequence[Present]) -> None:
    """Brings the table up to date, keeping the past of the processes that stay."""
    if len(wanted) > layout.MAX_PROCESSES:
        raise ValueError(f"{len(wanted)} processes on one GPU, the block has room for {layout.MAX_PROCESSES}")
    table, count = device.processes, device.process_count
    if [(p.pid, p.kind, p.instance) for p in table[:count]] != [(p.pid, p.kind, place) for p, _, place in wanted]:
        past = {p.pid: bytes(p.utilization) for p in table[:count]}
        for i, (process, _, place) in enumerate(wanted):
            table[i] = Process(pid=process.pid, kind=process.kind, instance=place)
            if process.pid in past:
                ctypes.memmove(table[i].utilization, past[process.pid], len(past[process.pid]))
        device.process_count = len(wanted)
    for i, (_, memory, _) in enumerate(wanted):
        table[i].memory_used = memory


def clear_sample(device: Device, slot: int) -> None:
    """Empties a slot that a new sample takes."""
    for process in device.processes[: device.process_count]:
        process.utilization[slot] = ProcessSample()


def share_sample(device: Device, slot: int, runs: Iterable[tuple[Run, float]], length: float) -> None:
    """Divides the busy seconds of runs in a sample of `length` among their processes."""
    for run, busy in runs:
        pids = {process.pid for process in run.load.processes}
        for process in device.processes[: device.process_count]:
            if process.pid in pids:
                sample = process.utilization[slot]
                sample.sm += percent(busy / len(pids), length)
                sample.memory += percent(busy * run.load.memory_activity / len(pids), length)


def percent(busy: float, length: float) -> int:
    """Whole percent, halves up."""
    return int(100 * busy / length + 0.5)
