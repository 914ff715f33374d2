"""Processes that have ended, from NVML's accounting mode, which an administrator turns on for each GPU."""

from __future__ import annotations

from collections.abc import Iterable

import pynvml

from dutycycle_exporter.model import FinishedProcess
from dutycycle_exporter.nvml.calls import Calls, ratio
from dutycycle_exporter.nvml.devices import Device

_MOST = 64
"""Processes of a GPU that are told in one turn: those that ended last."""


class FinishedProcesses:
    """Tells each process of one GPU once."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def read(self, device: Device, calls: Calls, running: Iterable[int]) -> tuple[FinishedProcess, ...]:
        """Those that ended since the last turn, newest last; `running` are the pids of the others. Raises LostError."""
        mode = calls.ask(device.unsupported, pynvml.nvmlDeviceGetAccountingMode, device.handle)
        if mode != pynvml.NVML_FEATURE_ENABLED:
            return ()
        pids = calls.ask(device.unsupported, pynvml.nvmlDeviceGetAccountingPids, device.handle)
        if pids is None:
            return ()
        alive = frozenset(running)
        # NVML's buffer is a ring: what has left it is forgotten here, too. A pid may be used again.
        self._told &= set(pids) - alive
        ended = []
        for pid in dict.fromkeys(pids):
            if pid in alive or pid in self._told:
                continue
            process = _read(device, calls, pid)
            if process is not None:
                self._told.add(pid)
                ended.append(process)
        ended.sort(key=lambda process: process.start + process.seconds)
        return tuple(ended[-_MOST:])


def _read(device: Device, calls: Calls, pid: int) -> FinishedProcess | None:
    call = pynvml.nvmlDeviceGetAccountingStats
    if call in device.unsupported:
        return None
    try:
        stats = call(device.handle, pid)
    except pynvml.NVMLError as error:
        # It has left the buffer meanwhile.
        if error.value != pynvml.NVML_ERROR_NOT_FOUND:
            calls.failed_with(device.unsupported, call.__name__, error.value, call)
        return None
    except TypeError:
        # pynvml's answer to a process whose memory is not known.
        calls.note(call.__name__, "not_available")
        return None
    if stats.isRunning:
        return None
    return FinishedProcess(
        pid=pid,
        start=stats.startTime / 1e6,
        seconds=stats.time / 1e3,
        utilization=ratio(int(stats.gpuUtilization)),
        memory_activity=ratio(int(stats.memoryUtilization)),
        max_memory=float(stats.maxMemoryUsage),
    )
