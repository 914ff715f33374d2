"""The one module that touches pynvml: reads every GPU once, in base units, and says what failed.

A call that a device does not support is found once and not asked again. A call that fails otherwise drops its reading
and is counted; it never becomes 0. Nothing here needs root.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pynvml

from dutycycle_exporter.errors import NvmlUnavailableError
from dutycycle_exporter.model import GpuReading, Process, Snapshot, Span
from dutycycle_exporter.sampling import SampleBuffer

_T = TypeVar("_T")

_ERROR_NAMES = {
    value: name.removeprefix("NVML_ERROR_").lower()
    for name, value in vars(pynvml).items()
    if name.startswith("NVML_ERROR_") and isinstance(value, int)
}
# Not a failure: the device, the driver or the library does not have it.
_ABSENT = {pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
_FATAL = {
    pynvml.NVML_ERROR_UNINITIALIZED,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
}
_CLOCKS = (
    ("graphics", pynvml.NVML_CLOCK_GRAPHICS),
    ("sm", pynvml.NVML_CLOCK_SM),
    ("memory", pynvml.NVML_CLOCK_MEM),
    ("video", pynvml.NVML_CLOCK_VIDEO),
)
_MIG_MODES = {pynvml.NVML_DEVICE_MIG_DISABLE: "disabled", pynvml.NVML_DEVICE_MIG_ENABLE: "enabled"}


@dataclass(slots=True)
class _Device:
    """A GPU's handle, what never changes about it, and what was found out about its calls."""

    handle: Any
    uuid: str
    index: int
    buffer: SampleBuffer
    model: str = ""
    minor: int | None = None
    pci_bus_id: str = ""
    mig_mode: str = ""
    unsupported: set[str] = field(default_factory=set)
    process_stamp: int = 0


class NvmlReader:
    """Reads NVML. Made, used and closed in one process; a call may hang for ever, which is why that is a child."""

    def __init__(self, *, interval: float, time_scale: float = 1.0) -> None:
        """Initialises NVML. Raises NvmlUnavailableError."""
        self._interval = interval
        self._time_scale = time_scale
        self._devices: dict[str, _Device] = {}
        self._shown: list[_Device] = []
        self._failures: Counter[tuple[str, str]] = Counter()
        self._dropped: Counter[str] = Counter()
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise _unavailable(error) from error
        self._driver = self._read(pynvml.nvmlSystemGetDriverVersion) or ""
        self._nvml = self._read(pynvml.nvmlSystemGetNVMLVersion) or ""
        cuda = self._read(pynvml.nvmlSystemGetCudaDriverVersion)
        self._cuda = "" if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}"

    def close(self) -> None:
        """Let the driver go, so that it can be unloaded."""
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            return

    def read(self, now: float) -> Snapshot:
        """Read every GPU at `now` (Unix seconds). Raises NvmlUnavailableError where NVML as a whole is gone."""
        began = time.perf_counter()
        visible = self._enumerate()
        gpus = []
        for device in self._shown:
            try:
                gpus.append(self._read_gpu(device, now))
            except _LostError:
                # What is known of a lost GPU is that it is lost: it is missing from `gpu_visible`.
                del self._devices[device.uuid]
                visible = None if visible is None else visible - 1
            self._dropped.update(device.buffer.dropped)
            device.buffer.dropped.clear()
        self._shown = [device for device in self._shown if device.uuid in self._devices]
        failures, self._failures = self._failures, Counter()
        dropped, self._dropped = self._dropped, Counter()
        return Snapshot(
            t=now,
            gpus=tuple(gpus),
            visible=visible,
            driver_version=self._driver,
            cuda_version=self._cuda,
            nvml_version=self._nvml,
            duration=time.perf_counter() - began,
            failures=dict(failures),
            dropped=dict(dropped),
        )

    def _enumerate(self) -> int | None:
        """Find the GPUs that NVML shows, in its order; returns how many there are, also of those without an answer.

        Keyed by UUID: an index may mean another GPU after a reset. Where NVML does not tell how many there are, those
        that it showed last are asked.
        """
        count = self._read(pynvml.nvmlDeviceGetCount)
        if count is None:
            return None
        visible = 0
        self._shown = []
        for index in range(count):
            handle = self._read(pynvml.nvmlDeviceGetHandleByIndex, index)
            if handle is None:
                continue
            try:
                uuid = self._try(pynvml.nvmlDeviceGetUUID, handle)
            except _LostError:
                continue
            visible += 1
            if uuid is None:
                continue
            device = self._devices.get(uuid)
            if device is None:
                buffer = SampleBuffer(interval=self._interval, time_scale=self._time_scale)
                device = self._devices[uuid] = _Device(handle, uuid, index, buffer)
            device.handle, device.index = handle, index
            self._shown.append(device)
        return visible

    def _identify(self, device: _Device) -> None:
        """Ask for what never changes about a GPU, as long as it is not known."""
        if not device.model:
            device.model = self._ask(device, pynvml.nvmlDeviceGetName) or ""
        if device.minor is None:
            device.minor = self._ask(device, pynvml.nvmlDeviceGetMinorNumber)
        if not device.pci_bus_id:
            pci = self._ask(device, pynvml.nvmlDeviceGetPciInfo)
            device.pci_bus_id = "" if pci is None else str(pci.busId).lower()

    def _learn_mig_mode(self, device: _Device) -> None:
        """What a GPU supports depends on its MIG mode: when that changes, all is asked for again."""
        modes = self._ask(device, pynvml.nvmlDeviceGetMigMode)
        mode = device.mig_mode if modes is None else _MIG_MODES.get(modes[0], "")
        if mode != device.mig_mode:
            device.mig_mode = mode
            device.unsupported.clear()

    def _read_gpu(self, device: _Device, now: float) -> GpuReading:
        """Raises _LostError."""
        self._identify(device)
        self._learn_mig_mode(device)
        rates = self._ask(device, pynvml.nvmlDeviceGetUtilizationRates)
        memory = self._ask(device, pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlMemory_v2, key="_v2")
        if "nvmlDeviceGetMemoryInfo_v2" in device.unsupported:
            # Before driver 510 the reserved part is not told, and counts as used.
            memory = self._ask(device, pynvml.nvmlDeviceGetMemoryInfo)
        spans = self._spans(device, None if rates is None else int(rates.gpu), now)
        energy = self._ask(device, pynvml.nvmlDeviceGetTotalEnergyConsumption)
        power = self._ask(device, pynvml.nvmlDeviceGetPowerUsage)
        power_limit = self._ask(device, pynvml.nvmlDeviceGetEnforcedPowerLimit)
        temperature = self._ask(device, pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU)
        fan = self._ask(device, pynvml.nvmlDeviceGetFanSpeed)
        state = self._ask(device, pynvml.nvmlDeviceGetPerformanceState)
        clocks = (
            (domain, self._ask(device, pynvml.nvmlDeviceGetClockInfo, clock, key=domain)) for domain, clock in _CLOCKS
        )
        return GpuReading(
            uuid=device.uuid,
            index=device.index,
            model=device.model,
            minor=device.minor,
            pci_bus_id=device.pci_bus_id,
            mig_mode=device.mig_mode,
            spans=tuple(spans),
            utilization=_ratio(None if rates is None else rates.gpu),
            memory_activity=_ratio(None if rates is None else rates.memory),
            memory_used=None if memory is None else float(memory.used),
            memory_total=None if memory is None else float(memory.total),
            memory_reserved=float(memory.reserved) if memory and hasattr(memory, "reserved") else None,
            power=None if power is None else power / 1e3,
            power_limit=None if power_limit is None else power_limit / 1e3,
            energy=None if energy is None else energy / 1e3,
            temperatures=() if temperature is None else (("gpu", float(temperature)),),
            fan=None if fan is None else fan / 100,
            clocks=tuple((domain, mhz * 1e6) for domain, mhz in clocks if mhz is not None),
            performance_state=state if state in range(16) else None,
            processes=self._processes(device, now),
        )

    def _spans(self, device: _Device, rate: int | None, now: float) -> list[Span]:
        """New measured time of a GPU: from its sample buffer, and from the rate where the buffer has nothing."""
        name = "nvmlDeviceGetSamples"
        samples: list[tuple[int, int]] = []
        if name not in device.unsupported:
            try:
                _, found = pynvml.nvmlDeviceGetSamples(
                    device.handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, device.buffer.since(now)
                )
                samples = [(sample.timeStamp, sample.sampleValue.uiVal) for sample in found]
            except pynvml.NVMLError as error:
                # NOT_FOUND is how an idle GPU answers.
                if error.value != pynvml.NVML_ERROR_NOT_FOUND:
                    self._note(device, name, error)
                    if error.value not in _ABSENT:
                        return []
        spans = device.buffer.take(samples, now)
        if rate is not None:
            spans += device.buffer.take_rate(rate, now, only_source=name in device.unsupported)
        return spans

    def _processes(self, device: _Device, now: float) -> tuple[Process, ...] | None:
        found = self._ask(device, pynvml.nvmlDeviceGetComputeRunningProcesses)
        if "nvmlDeviceGetComputeRunningProcesses" in device.unsupported:
            # Before driver 510.
            found = self._ask(device, pynvml.nvmlDeviceGetComputeRunningProcesses_v2)
        if found is None:
            return None
        work = self._process_utilization(device, now) if len(found) > 1 else None
        return tuple(
            Process(
                pid=int(process.pid),
                memory=None if process.usedGpuMemory is None else float(process.usedGpuMemory),
                utilization=None if work is None else work.get(int(process.pid), 0.0),
            )
            for process in found
        )

    def _process_utilization(self, device: _Device, now: float) -> dict[int, float | None] | None:
        """Mean utilization by pid since the last call; pids that did nothing are left out; None where not known."""
        name = "nvmlDeviceGetProcessUtilization"
        if name in device.unsupported:
            return None
        # From 0 NVML would answer with a long stale mean, and from a time ahead with nothing.
        since = device.process_stamp if 0 < device.process_stamp <= now * 1e6 else round((now - self._interval) * 1e6)
        try:
            samples = pynvml.nvmlDeviceGetProcessUtilization(device.handle, since)
        except pynvml.NVMLError as error:
            # pynvml also raises for a success without processes.
            if error.value in {pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS}:
                return {}
            self._note(device, name, error)
            return None
        device.process_stamp = max([since, *(int(sample.timeStamp) for sample in samples)])
        work: dict[int, float | None] = {}
        for sample in sorted(samples, key=lambda sample: int(sample.timeStamp)):
            work[int(sample.pid)] = _ratio(int(sample.smUtil))
            if sample.smUtil > 100:
                self._dropped["out_of_range"] += 1
        return work

    def _ask(self, device: _Device, call: Callable[..., _T], *arguments: Any, key: str = "") -> _T | None:
        """One call on one device; None where it is not supported or failed. Raises _LostError."""
        name = call.__name__
        if name + key in device.unsupported:
            return None
        try:
            return call(device.handle, *arguments)
        except pynvml.NVMLError as error:
            self._note(device, name, error, key)
            return None
        except pynvml.NVMLLibraryMismatchError:
            # How pynvml says that this library lacks the newest form of a function; it is no NVMLError.
            device.unsupported.add(name + key)
            return None

    def _note(self, device: _Device, name: str, error: Any, key: str = "") -> None:
        """What follows from an error of a call on a device. Raises _LostError."""
        if error.value in _ABSENT:
            device.unsupported.add(name + key)
        else:
            self._count(name, error)

    def _read(self, call: Callable[..., _T], *arguments: Any) -> _T | None:
        """One call that is not of a device that is known; None where it failed."""
        try:
            return self._try(call, *arguments)
        except _LostError:
            return None

    def _try(self, call: Callable[..., _T], *arguments: Any) -> _T | None:
        """As `_read`. Raises _LostError."""
        try:
            return call(*arguments)
        except pynvml.NVMLError as error:
            if error.value not in _ABSENT:
                self._count(call.__name__, error)
            return None

    def _count(self, name: str, error: Any) -> None:
        """Count a failed call. Raises _LostError, and NvmlUnavailableError where it is not this call's alone."""
        if error.value in _FATAL:
            raise _unavailable(error) from error
        self._failures[name, _ERROR_NAMES.get(error.value, "unknown")] += 1
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise _LostError from error


class _LostError(Exception):
    """This GPU has fallen off the bus."""


def _unavailable(error: Any) -> NvmlUnavailableError:
    reason = _ERROR_NAMES.get(error.value, "unknown")
    text = f"NVML cannot be used: {error}"
    if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        text += "; libnvidia-ml.so.1 was not found, install the NVIDIA driver or mount its library"
    elif error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        text += "; the driver was upgraded: reload its module, or restart the container that mounts its old library"
    return NvmlUnavailableError(reason, text)


def _ratio(percent: int | None) -> float | None:
    """A percentage as a ratio; None for what cannot be one."""
    return None if percent is None or not 0 <= percent <= 100 else percent / 100
