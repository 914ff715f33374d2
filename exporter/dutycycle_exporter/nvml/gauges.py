"""What NVML tells of a device at this moment, a call each."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import pynvml

from dutycycle_exporter.model import Counts
from dutycycle_exporter.nvml.calls import Calls, ratio
from dutycycle_exporter.nvml.devices import Device

_CLOCKS = (
    ("graphics", pynvml.NVML_CLOCK_GRAPHICS),
    ("sm", pynvml.NVML_CLOCK_SM),
    ("memory", pynvml.NVML_CLOCK_MEM),
    ("video", pynvml.NVML_CLOCK_VIDEO),
)


@dataclass(frozen=True, slots=True)
class SramErrors:
    """ECC errors of a GPU's on-chip memory."""

    counts: Counts = ()
    threshold_exceeded: bool | None = None


def read_sram_errors(device: Device, calls: Calls) -> SramErrors:
    """Read the ECC errors of on-chip memory, from Ampere on. Raises LostError."""
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    call = pynvml.nvmlDeviceGetSramEccErrorStatus
    if call in device.unsupported or calls.too_late(call.__name__):
        return SramErrors()
    try:
        # pynvml passes its argument on as it is, and NVML takes a pointer.
        call(device.handle, ctypes.byref(status))
    except pynvml.NVMLError as error:
        calls.failed_with(device.unsupported, call.__name__, error.value, call)
        if error.value == pynvml.NVML_ERROR_NO_PERMISSION:
            # nvml.h says that only root may make this call, and the exporter need not be root.
            device.unsupported.add(call)
        return SramErrors()
    counts = {
        "sram_volatile_corrected": status.volatileCor,
        "sram_volatile_uncorrected": status.volatileUncParity + status.volatileUncSecDed,
        "sram_aggregate_corrected": status.aggregateCor,
        "sram_aggregate_uncorrected": status.aggregateUncParity + status.aggregateUncSecDed,
    }
    return SramErrors(tuple((kind, float(count)) for kind, count in counts.items()), status.bThresholdExceeded != 0)


def read_encoder(device: Device, calls: Calls) -> float | None:
    """Ratio over the driver's last sample period; None where it does not tell. Raises LostError."""
    return _of_period(calls.ask(device.unsupported, pynvml.nvmlDeviceGetEncoderUtilization, device.handle))


def read_decoder(device: Device, calls: Calls) -> float | None:
    """As `read_encoder`, of the video decoder. Raises LostError."""
    return _of_period(calls.ask(device.unsupported, pynvml.nvmlDeviceGetDecoderUtilization, device.handle))


def _of_period(answer: Any) -> float | None:
    """Of a percentage and the microseconds that it is of."""
    return None if answer is None else ratio(int(answer[0]))


def read_memory(unsupported: set[object], calls: Calls, handle: Any) -> tuple[float, float, float | None] | None:
    """(used, total, reserved) bytes of a GPU or a MIG instance; None where not known. Raises LostError.

    Before driver 510 the reserved part is not told, and counts as used.
    """
    memory = calls.ask(unsupported, pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2, key="memory_v2")
    if memory is not None:
        return float(memory.used), float(memory.total), float(memory.reserved)
    if "memory_v2" not in unsupported:
        return None
    memory = calls.ask(unsupported, pynvml.nvmlDeviceGetMemoryInfo, handle)
    return None if memory is None else (float(memory.used), float(memory.total), None)


def read_power(device: Device, calls: Calls) -> float | None:
    """Watts, for GPUs and drivers without the field; over the last second on most. Raises LostError."""
    milliwatts = calls.ask(device.unsupported, pynvml.nvmlDeviceGetPowerUsage, device.handle)
    return None if milliwatts is None else milliwatts / 1e3


def read_power_limit(device: Device, calls: Calls) -> float | None:
    """Watts, for GPUs and drivers without the field. Raises LostError."""
    milliwatts = calls.ask(device.unsupported, pynvml.nvmlDeviceGetEnforcedPowerLimit, device.handle)
    return None if milliwatts is None else milliwatts / 1e3


def read_temperature(device: Device, calls: Calls) -> float | None:
    """Of the GPU itself, in degrees Celsius. Raises LostError."""
    degrees = calls.ask(device.unsupported, pynvml.nvmlDeviceGetTemperature, device.handle, pynvml.NVML_TEMPERATURE_GPU)
    return None if degrees is None else float(degrees)


def read_fan(device: Device, calls: Calls) -> float | None:
    """Intended speed as a ratio. Raises LostError."""
    percent = calls.ask(device.unsupported, pynvml.nvmlDeviceGetFanSpeed, device.handle)
    return None if percent is None else percent / 100


def read_clocks(device: Device, calls: Calls) -> tuple[tuple[str, float], ...]:
    """Hertz by domain. Raises LostError."""
    found = []
    for domain, clock in _CLOCKS:
        megahertz = calls.ask(device.unsupported, pynvml.nvmlDeviceGetClockInfo, device.handle, clock, key=domain)
        if megahertz is not None:
            found.append((domain, megahertz * 1e6))
    return tuple(found)


def read_performance_state(device: Device, calls: Calls) -> int | None:
    """0 to 15; None also where the GPU says that it does not know. Raises LostError."""
    state = calls.ask(device.unsupported, pynvml.nvmlDeviceGetPerformanceState, device.handle)
    return state if state in range(16) else None
