"""The processes that hold each device, from one snapshot to the next: as NVML numbers them and /proc describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dutycycle_exporter.model import GpuReading

from .errors import UnusableError
from .processes import HostProcess, ProcessReader


class DeviceProcesses:
    """Remembers who was there while NVML does not tell."""

    def __init__(self, reader: ProcessReader) -> None:
        self._reader = reader
        self._last_seen: dict[str, tuple[HostProcess, ...]] = {}

    def read(self, gpus: Sequence[GpuReading]) -> tuple[Mapping[str, Sequence[HostProcess]], Mapping[int, str]]:
        """The processes on each device, and why which of those that NVML reports could not be read.

        A device of which NVML does not tell the processes, or that it does not show any more, keeps those that it was
        last seen with as long as they live.
        """
        reported = {gpu.key: gpu.processes for gpu in gpus}
        drawing = {gpu.key: [process.pid for process in gpu.graphics] for gpu in gpus}
        found: dict[str, tuple[HostProcess, ...]] = {}
        unusable: dict[int, str] = {}
        for gpu in {**self._last_seen, **reported}:
            answer = reported.get(gpu)
            if answer is None:
                found[gpu] = self._living(self._last_seen.get(gpu, ()))
                continue
            live: dict[int, HostProcess] = {}
            for pid, draws in (*((process.pid, False) for process in answer), *((pid, True) for pid in drawing[gpu])):
                try:
                    process = self._reader.read(pid)
                except UnusableError as error:
                    unusable[pid] = error.reason
                else:
                    live[pid] = replace(process, draws=True) if draws else process
            found[gpu] = tuple(live.values())
        self._last_seen = {gpu: live for gpu, live in found.items() if live}
        return found, unusable

    def _living(self, processes: Iterable[HostProcess]) -> tuple[HostProcess, ...]:
        living = []
        for process in processes:
            try:
                current = self._reader.read(process.pid)
            except UnusableError:
                continue
            if current.ticks == process.ticks:
                living.append(replace(current, draws=process.draws))
        return tuple(living)
