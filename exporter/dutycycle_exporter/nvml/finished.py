"""Processes that have ended, from NVML's accounting mode, which an administrator turns on for each GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

import pynvml

from dutycycle_exporter.model import FinishedProcess
from dutycycle_exporter.nvml.calls import Calls, ratio
from dutycycle_exporter.nvml.devices import Device

_MOST = 64
"""Processes of a GPU that are told in one turn: those that ended last."""

_MOST_CALLS = 128
"""Processes of a GPU that NVML is asked about in one turn: its buffer holds thousands, and each is a call."""

_TRIES = 3
"""Turns in which a process is asked for that NVML names and says nothing of."""


class FinishedProcesses:
    """Tells each process of one GPU once."""

    def __init__(self) -> None:
        self._told: set[int] = set()
        self._refused: Counter[int] = Counter()

    def read(self, device: Device, calls: Calls, running: Iterable[int]) -> tuple[FinishedProcess, ...]:
        """Those that ended since the last turn, newest last; `running` are the pids of the others. Raises LostError."""
        mode = calls.ask(device.unsupported, pynvml.nvmlDeviceGetAccountingMode, device.handle)
        if mode != pynvml.NVML_FEATURE_ENABLED:
            return ()
        pids = calls.ask(device.unsupported, pynvml.nvmlDeviceGetAccountingPids, device.handle)
        if pids is None:
            return ()
        ended = []
        for pid in self._due(pids, frozenset(running)):
            stats = _stats(device, calls, pid)
            if stats is None:
                self._refused[pid] += 1
            elif not stats.isRunning:
                self._told.add(pid)
                ended.append(_process(pid, stats))
        ended.sort(key=lambda process: process.start + process.seconds)
        return tuple(ended[-_MOST:])

    def _due(self, pids: Sequence[int], alive: frozenset[int]) -> list[int]:
        """Whom to ask for, the newest first; the others' turn comes."""
        # NVML's buffer is a ring: what has left it is forgotten here, too. A pid may be used again.
        past = [pid for pid in dict.fromkeys(reversed(pids)) if pid not in alive]
        self._told.intersection_update(past)
        self._refused = Counter({pid: self._refused[pid] for pid in past if pid in self._refused})
        due = (pid for pid in past if pid not in self._told and self._refused[pid] < _TRIES)
        return list(islice(due, _MOST_CALLS))


def _stats(device: Device, calls: Calls, pid: int) -> pynvml.c_nvmlAccountingStats_t | None:
    call = pynvml.nvmlDeviceGetAccountingStats
    if call in device.unsupported or calls.too_late(call.__name__):
        return None
    try:
        return call(device.handle, pid)
    except pynvml.NVMLError as error:
        # It has left the buffer meanwhile.
        if error.value != pynvml.NVML_ERROR_NOT_FOUND:
            calls.failed_with(device.unsupported, call.__name__, error.value, call)
    except TypeError:
        # pynvml's answer to a process whose memory is not known.
        calls.note(call.__name__, "not_available")
    return None


def _process(pid: int, stats: pynvml.c_nvmlAccountingStats_t) -> FinishedProcess:
    return FinishedProcess(
        pid=pid,
        start=stats.startTime / 1e6,
        seconds=stats.time / 1e3,
        utilization=ratio(int(stats.gpuUtilization)),
        memory_activity=ratio(int(stats.memoryUtilization)),
        max_memory=float(stats.maxMemoryUsage),
    )
