"""The processes that have a context on a GPU or a MIG instance, and what each does."""

from __future__ import annotations

import ctypes
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pynvml

from dutycycle_exporter.model import Process
from dutycycle_exporter.nvml.answers import Answers
from dutycycle_exporter.nvml.calls import Calls, ratio
from dutycycle_exporter.nvml.devices import Device

# Of an nvmlProcessUtilizationSample_t: pid, microseconds, percent of the multiprocessors' time and of the memory's.
_SAMPLE = struct.Struct("=I4xQII8x")

_Work = dict[int, tuple[float | None, float | None]]
"""Shares of time by pid: of its multiprocessors, of its memory."""


class ProcessReader:
    """Reads the processes of one device. `detail`: what each of them does is wanted also where there is only one."""

    def __init__(self, *, interval: float, detail: bool) -> None:
        self.dropped: Counter[str] = Counter()
        self._interval = interval
        self._detail = detail
        # As many as drivers were seen to ask room for, whatever there are.
        self._answers = Answers("nvmlDeviceGetProcessUtilization", pynvml.c_nvmlProcessUtilizationSample_t, 128)
        self._stamp = 0  # microseconds: of the newest utilization that was seen

    def of_gpu(
        self, device: Device, calls: Calls, stamp: float
    ) -> tuple[tuple[Process, ...] | None, tuple[Process, ...]]:
        """Those of a whole GPU with a compute context, and those that only draw; the first are None where not all of
        both are known. `stamp` is what NVML would write for now. Raises LostError.

        Of a single process it is known what it does: all that the GPU does.
        """
        found = running(device.unsupported, calls, device.handle)
        drawing = None if found is None else _drawing(device.unsupported, calls, device.handle)
        if found is None or drawing is None:
            return None, ()
        computing = {process.pid for process in found}
        drawing = tuple(process for process in drawing if process.pid not in computing)
        many = len(found) + len(drawing)
        work = self._work(device, calls, stamp) if many > 1 or (many and self._detail) else None
        return tuple(_at_work(one, work) for one in found), tuple(_at_work(one, work) for one in drawing)

    def _work(self, device: Device, calls: Calls, stamp: float) -> _Work | None:
        """Since the last call; pids that did nothing are left out; None where not known."""
        name = self._answers.function
        if name in device.unsupported or calls.too_late(name):
            return None
        # From 0, and from long ago, NVML would answer with a long stale mean, and from a time ahead with nothing.
        newest, turn = self._stamp, self._interval * 1e6
        since = max(newest, round(stamp - 2 * turn)) if 0 < newest <= stamp else max(1, round(stamp - turn))
        try:
            samples = self._samples(device, since)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_NOT_FOUND:
                return {}
            calls.failed_with(device.unsupported, name, error.value, name)
            return None
        work: _Work = {}
        latest: dict[int, int] = {}
        for pid, last, sm, memory in samples:
            if sm > 100:
                self.dropped["out_of_range"] += 1
            if last >= latest.get(pid, 0):
                latest[pid] = last
                work[pid] = ratio(sm), ratio(memory)
        self._stamp = max([since, *latest.values()])
        return work

    def _samples(self, device: Device, since: int) -> Iterator[tuple[int, int, int, int]]:
        """(pid, microseconds, percents) of processes that worked after `since`. Raises NVMLError."""
        last_seen = ctypes.c_ulonglong(since)

        def ask(function: Any, count: Any, array: Any) -> int:
            return int(function(device.handle, array, count, last_seen))

        samples = _SAMPLE.iter_unpack(self._answers.fill(ask))
        # Where fewer were filled in than NVML says, the rest is what an earlier call left in the array.
        return (sample for sample in samples if sample[1] > since)


def running(unsupported: set[object], calls: Calls, handle: Any) -> tuple[Process, ...] | None:
    """Of a GPU or a MIG instance, each with its memory; None where not all of them are known. Raises LostError.

    The clients of an MPS server have a list of their own. Where there are any, the server is in the first one.
    """
    found = calls.ask(unsupported, pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    if pynvml.nvmlDeviceGetComputeRunningProcesses in unsupported:
        # Before driver 510.
        found = calls.ask(unsupported, pynvml.nvmlDeviceGetComputeRunningProcesses_v2, handle)
    if not found:
        return None if found is None else ()
    clients = calls.ask(unsupported, pynvml.nvmlDeviceGetMPSComputeRunningProcesses, handle)
    if pynvml.nvmlDeviceGetMPSComputeRunningProcesses in unsupported:
        clients = calls.ask(unsupported, pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2, handle)
    if clients is None:
        if pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2 not in unsupported:
            # Without its clients an MPS server passes for a process that does their work.
            return None
        clients = ()
    memory = {process.pid: process.usedGpuMemory for process in (*found, *clients)}
    served = {process.pid for process in clients}
    return tuple(
        Process(int(pid), None if used is None else float(used), mps_client=pid in served)
        for pid, used in memory.items()
    )


def _drawing(unsupported: set[object], calls: Calls, handle: Any) -> tuple[Process, ...] | None:
    """Those of a GPU with a graphics context, which are not in the list of those that compute, but share its time with
    them; None where that is not known. Raises LostError.
    """
    found = calls.ask(unsupported, pynvml.nvmlDeviceGetGraphicsRunningProcesses, handle)
    if pynvml.nvmlDeviceGetGraphicsRunningProcesses in unsupported:
        # Before driver 510.
        found = calls.ask(unsupported, pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2, handle)
        if pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2 in unsupported:
            return ()
    if found is None:
        return None
    memory = {int(process.pid): process.usedGpuMemory for process in found}
    return tuple(Process(pid, None if used is None else float(used)) for pid, used in memory.items())


def _at_work(process: Process, work: _Work | None) -> Process:
    """The process with what it does: nothing, where that is known of the others and not of it."""
    time, memory = (None, None) if work is None else work.get(process.pid, (0.0, 0.0))
    return Process(process.pid, process.memory, time, memory, process.mps_client)
