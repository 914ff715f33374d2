"""A snapshot of all GPUs a turn."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import pynvml

from dutycycle_exporter.collected import DEFAULT
from dutycycle_exporter.errors import NvmlUnavailableError
from dutycycle_exporter.model import Asking, DeviceIndex, GpuReading, Returned, Snapshot, Xid
from dutycycle_exporter.nvml.calls import Calls, LostError, unavailable
from dutycycle_exporter.nvml.devices import Device, Devices
from dutycycle_exporter.nvml.events import XidWatch
from dutycycle_exporter.nvml.fields import DriverVersion
from dutycycle_exporter.nvml.gpm import Metrics
from dutycycle_exporter.nvml.gpu import Gpu
from dutycycle_exporter.nvml.lost import FIRST_AGE, MissingGpus
from dutycycle_exporter.nvml.slow import SlowGpus
from dutycycle_exporter.nvml.suspects import Suspects
from dutycycle_exporter.sampling import RATE_INTERVAL

_MOST_EXCLUDED = 256
"""GPUs that a driver leaves out, and more than any machine has: what NVML says beyond that is no count."""


@dataclass
class _Turn:
    """A reading of all GPUs that is under way: when it began, by each clock, and what it has found so far."""

    now: float
    elapsed: float | None
    timer: Callable[[], float]
    began: float
    readings: list[GpuReading] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def at(self) -> float:
        """Its instant, by the clock that nobody sets where there is one."""
        return self.now if self.elapsed is None else self.elapsed

    def instant(self) -> float:
        """How far it has come, by that clock."""
        return self.at + self.timer() - self.began


class NvmlReader:
    """Reads NVML. Made, used and closed in one process; a call may hang for ever, which is why that is a child."""

    def __init__(
        self,
        *,
        interval: float,
        time_scale: float = 1.0,
        timeout: float = 20.0,
        ask_last: Collection[DeviceIndex] = (),
        leave_out: Collection[DeviceIndex] = (),
        missing_age: float = FIRST_AGE,
        collect: frozenset[str] = DEFAULT,
        on_xid: Callable[[Xid], None] = lambda _: None,
        on_asking: Callable[[Asking | Returned], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Initialises NVML. `timeout` is how many seconds a turn may last beyond its interval, of which a GPU that is
        slow takes a part at most. `ask_last` and `leave_out` are GPUs from which calls did not return, and `on_asking`
        is told of each before it is asked. `collect` is what to read, of `collected.COLLECTED`; `timer` measures what a
        turn takes, in seconds. `on_xid` is told each XID when it happens, which `clock` says, on a thread of its own: a
        call on the GPU that reported it may hang from then on. `missing_age` is how many seconds, at full length, pass
        before a GPU that was missing from the start is looked for by another process. Raises NvmlUnavailableError.
        """
        self._timer = timer
        self._interval = interval
        self._time_scale = time_scale
        self._collect = collect
        self._calls = Calls(timer)
        self._slow = SlowGpus(self._calls, timeout=timeout, time_scale=time_scale, timer=timer)
        self._suspects = Suspects(ask_last, leave_out, on_asking, timer=timer)
        self._gpus: dict[str, Gpu] = {}
        self._worked = False
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise unavailable(error.value) from error
        self._driver = self._calls.read(pynvml.nvmlSystemGetDriverVersion) or ""
        self._nvml = self._calls.read(pynvml.nvmlSystemGetNVMLVersion) or ""
        cuda = self._calls.read(pynvml.nvmlSystemGetCudaDriverVersion)
        self._cuda = "" if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}"
        # Of the loaded driver: they do not change while NVML is there.
        self._excluded = _excluded(self._calls)
        self._devices = Devices(self._calls, self._slow, self._suspects)
        self._missing = MissingGpus(time_scale=time_scale, least_age=missing_age)
        self._metrics: Metrics | None = None
        if "gpm" in collect:
            self._metrics = Metrics(self._calls, self._driver_version[0], time_scale=time_scale)
        self._xids = XidWatch(on_xid, clock=clock, time_scale=time_scale) if "xid" in collect else None

    def close(self) -> None:
        """Let the driver go, so that it can be unloaded."""
        for gpu in self._gpus.values():
            gpu.close()
        self._gpus.clear()
        if self._xids is not None and not self._xids.close():
            # A call that hangs may hold what shutting down waits for. The process is about to end.
            return
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            return

    def read(self, now: float, elapsed: float | None = None) -> Snapshot:
        """Read every GPU at `now` (Unix seconds), when `elapsed()` was `elapsed`; None where nobody sets the clock.

        Raises NvmlUnavailableError where NVML as a whole is gone, or where a GPU is missing that a fresh process may
        see; the error has what this turn found.
        """
        turn = _Turn(now, elapsed, self._timer, self._timer())
        try:
            self._read_gpus(turn)
            self._missing.watch(turn.at, self._devices.asked, self._devices.visible)
        except NvmlUnavailableError as error:
            found = self._snapshot(turn)
            # A child that never worked has nothing to tell but that.
            if self._worked and (found.gpus or found.failures):
                error.last = found
            raise
        self._worked = True
        return self._snapshot(turn)

    @property
    def poll_interval(self) -> float:
        """Return the wall seconds between two calls of `poll`; infinity where every GPU has a sample buffer."""
        return RATE_INTERVAL / self._time_scale if self._without_buffer() else math.inf

    def poll(self, elapsed: float) -> None:
        """Read the utilization of GPUs without a sample buffer, when `elapsed()` was `elapsed`.

        Raises NvmlUnavailableError.
        """
        began = self._timer()
        gpus = {gpu.device.index: gpu for gpu in self._without_buffer()}
        self._suspects.begin_poll()
        for index in sorted(gpus, key=lambda index: (index in self._suspects.suspected, index)):
            if not self._slow.admits_poll(index, began):
                continue
            # The next turn removes a lost GPU.
            with suppress(LostError), self._suspects.asking(index, whole=True), self._slow.asking(index):
                gpus[index].poll(elapsed)
        self._suspects.end_poll()

    def _without_buffer(self) -> list[Gpu]:
        return [gpu for gpu in self._gpus.values() if gpu.lacks_buffer]

    def _read_gpus(self, turn: _Turn) -> None:
        """Add to the turn what each GPU gives. Raises NvmlUnavailableError."""
        self._slow.begin(turn.at)
        self._devices.find()
        self._read_each([device for device in self._devices.shown if device.index not in self._suspects.last], turn)
        if self._suspects.last:
            self._devices.find_last()
            self._read_each([device for device in self._devices.shown if device.index in self._suspects.last], turn)
        for uuid in self._gpus.keys() - {device.uuid for device in self._devices.shown}:
            self._gpus.pop(uuid).close()
        turn.readings.sort(key=lambda reading: reading.index)
        self._slow.end()
        self._suspects.end()

    def _read_each(self, devices: Iterable[Device], turn: _Turn) -> None:
        """As `_read_gpus` does, these."""
        if self._xids is not None:
            # Before anything is read that may hang.
            self._xids.watch(self._devices.there)
        found = {device.index: device for device in devices}
        for device in [found[index] for index in self._slow.in_order(found)]:
            if not self._slow.admits(device.index, late=device.index in self._suspects.last):
                turn.readings.append(device.unread())
                continue
            gpu = self._gpu(device)
            try:
                with self._suspects.asking(device.index, whole=True), self._slow.asking(device.index, whole=True):
                    turn.readings += gpu.read(turn.instant, turn.now - turn.at)
            except LostError:
                self._devices.lose(device)
                self._gpus.pop(device.uuid).close()
            for reasons in gpu.take_dropped():
                turn.dropped.update(reasons)

    def _snapshot(self, turn: _Turn) -> Snapshot:
        clamped: dict[str, int] = {}
        if self._metrics is not None:
            clamped = dict(self._metrics.clamped)
            turn.dropped.update({"gpm": self._metrics.dropped} if self._metrics.dropped else {})
            self._metrics.clamped.clear()
            self._metrics.dropped = 0
        if self._calls.failed:
            self._devices.doubt()
        if self._xids is not None:
            for call, error in self._xids.take_failures():
                self._calls.note(call, error)
        return Snapshot(
            t=turn.now,
            gpus=tuple(turn.readings),
            visible=self._devices.visible,
            driver_version=self._driver,
            cuda_version=self._cuda,
            nvml_version=self._nvml,
            duration=self._timer() - turn.began,
            failures=self._calls.take_failures(),
            dropped=dict(turn.dropped),
            clamped=clamped,
            elapsed=turn.elapsed,
            slow=tuple(sorted(self._slow.resting)),
            excluded=self._excluded,
        )

    def _gpu(self, device: Device) -> Gpu:
        gpu = self._gpus.get(device.uuid)
        if gpu is None or gpu.device is not device:
            gpu = self._gpus[device.uuid] = Gpu(
                device,
                self._calls,
                interval=self._interval,
                time_scale=self._time_scale,
                collect=self._collect,
                driver=self._driver_version,
                metrics=self._metrics,
            )
        return gpu

    @property
    def _driver_version(self) -> DriverVersion:
        """Return (0, 0) where it is unknown: the fields that every driver numbers alike are read then."""
        found = re.match(r"([0-9]+)\.([0-9]+)", self._driver)
        return (int(found[1]), int(found[2])) if found else (0, 0)


def _excluded(calls: Calls) -> tuple[str, ...] | None:
    """The PCI addresses of the GPUs that the driver was told to leave out (NVreg_ExcludedGpus), as sysfs has them; None
    where it does not answer. Raises NvmlUnavailableError.
    """
    unsupported: set[object] = set()
    try:
        count = calls.ask(unsupported, pynvml.nvmlGetExcludedDeviceCount)
        if count is None:
            return () if unsupported else None
        found = []
        for index in range(min(count, _MOST_EXCLUDED)):
            info = calls.ask(unsupported, pynvml.nvmlGetExcludedDeviceInfoByIndex, index)
            if info is None:
                return None
            found.append(f"{info.pci.domain:04x}:{info.pci.bus:02x}:{info.pci.device:02x}.0")
    except LostError:
        return None
    return tuple(found)
