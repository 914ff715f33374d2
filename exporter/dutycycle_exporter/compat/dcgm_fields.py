"""The one table of what is shown under dcgm-exporter's names: name, type and unit there, and what it is here.

`docs/dcgm.md` is generated from it. Names, types and units are those of dcgm-exporter's counter files and of DCGM's
dcgm_fields.h; where a file contradicts itself or the header, the type that fits the values is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from dutycycle_exporter.contract import Family
from dutycycle_exporter.model import Counts, GpuReading
from dutycycle_exporter.views import DeviceView

LABELS = (
    *("gpu", "UUID", "pci_bus_id", "device", "modelName", "GPU_I_PROFILE", "GPU_I_ID", "Hostname"),
    *("DCGM_FI_DRIVER_VERSION", "namespace", "pod", "container", "hpc_job"),
)
"""Labels that a series can have, in this order; those without a value are left out."""

DcgmKind = Literal["gauge", "counter"]

_MIB = 2.0**20


@dataclass(frozen=True, slots=True)
class Field:
    """One family. `own` is what our families have for it, in PromQL, and `times` what makes that into `unit`.

    `value` gives it from a device, in our unit; it is None for what is not of a device, but of its XIDs. `whole` tells
    that DCGM has whole numbers here. `labels` are beyond `LABELS`.
    """

    name: str
    kind: DcgmKind
    unit: str
    own: str
    value: Callable[[DeviceView], float | None] | None
    times: float = 1.0
    whole: bool = True
    labels: tuple[str, ...] = ()

    @property
    def formula(self) -> str:
        """How it comes from our families, in PromQL."""
        if self.times == 1:
            return self.own
        own = f"({self.own})" if " " in self.own else self.own
        return f"{own} * {self.times:.0f}" if self.times > 1 else f"{own} / {1 / self.times:.0f}"

    def read(self, device: DeviceView) -> float | None:
        """The value as dcgm-exporter shows it; None where it is not known."""
        value = None if self.value is None else self.value(device)
        if value is None:
            return None
        shown = value * self.times
        if not math.isfinite(shown):
            return None
        return round(shown) if self.whole else shown

    @property
    def family(self) -> Family:
        """As it is published."""
        unit = f", in {self.unit}" if self.unit else ""
        return Family(self.name, self.kind, (*LABELS, *self.labels), f"{self.formula}{unit}.")


def _of(counts: Counts, name: str) -> float | None:
    for key, value in counts:
        if key == name:
            return value
    return None


def _flag(value: bool | None) -> float | None:
    return None if value is None else float(value)


def _free(device: DeviceView) -> float | None:
    """What is neither used nor reserved. Drivers that do not tell what they reserve count it as used."""
    gpu = device.reading
    if gpu.memory_total is None or gpu.memory_used is None:
        return None
    return max(0.0, gpu.memory_total - gpu.memory_used - (gpu.memory_reserved or 0.0))


def _used_share(device: DeviceView) -> float | None:
    gpu = device.reading
    if gpu.memory_total is None or gpu.memory_used is None:
        return None
    usable = gpu.memory_total - (gpu.memory_reserved or 0.0)
    return gpu.memory_used / usable if usable > 0 else None


def _nvlink(device: DeviceView) -> float | None:
    """Both directions together."""
    if device.reading.activity is None:
        return None
    rates = dict(device.reading.activity.nvlink)
    return rates["rx"] + rates["tx"] if rates.keys() >= {"rx", "tx"} else None


_LABELLED: Mapping[str, tuple[str, Callable[[GpuReading], Counts]]] = {
    "gpu_clock_hertz": ("domain", lambda gpu: gpu.clocks),
    "gpu_temperature_celsius": ("sensor", lambda gpu: gpu.temperatures),
    "gpu_throttle_seconds_total": ("reason", lambda gpu: gpu.throttle),
    "gpu_ecc_errors_total": ("type", lambda gpu: gpu.ecc_errors),
    "gpu_retired_pages": ("type", lambda gpu: gpu.retired_pages),
    "gpu_remapped_rows": ("type", lambda gpu: gpu.remapped_rows),
    "gpu_pcie_bytes_total": ("direction", lambda gpu: gpu.pcie_bytes),
    "gpu_cycles_total": ("unit", lambda gpu: gpu.cycles),
    "gpu_pcie_bytes_per_second": ("direction", lambda gpu: () if gpu.activity is None else gpu.activity.pcie),
    "gpu_nvlink_bytes_per_second": ("direction", lambda gpu: () if gpu.activity is None else gpu.activity.nvlink),
}
"""Our families that have a label more than a device's: the label, and the values by its own."""


def _plain(
    name: str,
    unit: str,
    own: str,
    value: Callable[[GpuReading], float | None],
    times: float = 1.0,
    *,
    kind: DcgmKind = "gauge",
    whole: bool = True,
) -> Field:
    return Field(name, kind, unit, own, lambda device: value(device.reading), times, whole)


def _labelled(name: str, unit: str, family: str, key: str, times: float = 1.0, *, kind: DcgmKind = "counter") -> Field:
    label, counts = _LABELLED[family]
    own = f'{family}{{{label}="{key}"}}'
    return Field(name, kind, unit, own, lambda device: _of(counts(device.reading), key), times)


def _active(name: str, unit: str, own: str) -> Field:
    def value(gpu: GpuReading) -> float | None:
        return None if gpu.activity is None else _of(gpu.activity.units, unit)

    return _plain(name, "0..1", own, value, whole=False)


XID_LAST = Field(
    "DCGM_FI_DEV_XID_ERRORS",
    "gauge",
    "",
    "label xid of the newest gpu_xid_last_timestamp_seconds",
    None,
    labels=("err_code",),
)
XID_COUNT = Field("DCGM_EXP_XID_ERRORS_TOTAL", "counter", "", "gpu_xid_errors_total", None, labels=("xid",))

FIELDS = (
    _labelled("DCGM_FI_DEV_SM_CLOCK", "MHz", "gpu_clock_hertz", "sm", 1e-6, kind="gauge"),
    _labelled("DCGM_FI_DEV_MEM_CLOCK", "MHz", "gpu_clock_hertz", "memory", 1e-6, kind="gauge"),
    _labelled("DCGM_FI_DEV_VIDEO_CLOCK", "MHz", "gpu_clock_hertz", "video", 1e-6, kind="gauge"),
    _labelled("DCGM_FI_DEV_MEMORY_TEMP", "C", "gpu_temperature_celsius", "memory", kind="gauge"),
    _labelled("DCGM_FI_DEV_GPU_TEMP", "C", "gpu_temperature_celsius", "gpu", kind="gauge"),
    Field("DCGM_FI_DEV_POWER_USAGE", "gauge", "W", "gpu_power_watts", lambda device: device.power, whole=False),
    _plain("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "W", "gpu_power_limit_watts", lambda gpu: gpu.power_limit, whole=False),
    _plain(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "mJ",
        "gpu_energy_joules_total",
        lambda gpu: gpu.energy,
        1000,
        kind="counter",
    ),
    _plain("DCGM_FI_DEV_PSTATE", "", "gpu_performance_state", lambda gpu: gpu.performance_state),
    _plain("DCGM_FI_DEV_FAN_SPEED", "%", "gpu_fan_ratio", lambda gpu: gpu.fan, 100),
    _plain("DCGM_FI_DEV_GPU_UTIL", "%", "gpu_utilization_ratio", lambda gpu: gpu.utilization, 100),
    _plain("DCGM_FI_DEV_MEM_COPY_UTIL", "%", "gpu_memory_activity_ratio", lambda gpu: gpu.memory_activity, 100),
    _plain("DCGM_FI_DEV_ENC_UTIL", "%", "gpu_encoder_utilization_ratio", lambda gpu: gpu.encoder_utilization, 100),
    _plain("DCGM_FI_DEV_DEC_UTIL", "%", "gpu_decoder_utilization_ratio", lambda gpu: gpu.decoder_utilization, 100),
    _plain("DCGM_FI_DEV_FB_TOTAL", "MiB", "gpu_memory_total_bytes", lambda gpu: gpu.memory_total, 1 / _MIB),
    Field(
        "DCGM_FI_DEV_FB_FREE",
        "gauge",
        "MiB",
        "gpu_memory_total_bytes - gpu_memory_used_bytes - gpu_memory_reserved_bytes",
        _free,
        1 / _MIB,
    ),
    _plain("DCGM_FI_DEV_FB_USED", "MiB", "gpu_memory_used_bytes", lambda gpu: gpu.memory_used, 1 / _MIB),
    _plain("DCGM_FI_DEV_FB_RESERVED", "MiB", "gpu_memory_reserved_bytes", lambda gpu: gpu.memory_reserved, 1 / _MIB),
    Field(
        "DCGM_FI_DEV_FB_USED_PERCENT",
        "gauge",
        "0..1",
        "gpu_memory_used_bytes / (gpu_memory_total_bytes - gpu_memory_reserved_bytes)",
        _used_share,
        whole=False,
    ),
    XID_LAST,
    XID_COUNT,
    _labelled("DCGM_FI_DEV_POWER_VIOLATION", "ns", "gpu_throttle_seconds_total", "power_cap", 1e9),
    _labelled("DCGM_FI_DEV_THERMAL_VIOLATION", "ns", "gpu_throttle_seconds_total", "thermal", 1e9),
    _labelled("DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "ns", "gpu_throttle_seconds_total", "sync_boost", 1e9),
    _labelled("DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "ns", "gpu_throttle_seconds_total", "board_limit", 1e9),
    _labelled("DCGM_FI_DEV_RELIABILITY_VIOLATION", "ns", "gpu_throttle_seconds_total", "reliability", 1e9),
    _labelled("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "ns", "gpu_throttle_seconds_total", "power_cap", 1e9),
    _labelled(
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", "ns", "gpu_throttle_seconds_total", "sw_thermal", 1e9
    ),
    _labelled(
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", "ns", "gpu_throttle_seconds_total", "hw_thermal", 1e9
    ),
    _labelled(
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS",
        "ns",
        "gpu_throttle_seconds_total",
        "power_brake",
        1e9,
    ),
    _labelled("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "", "gpu_ecc_errors_total", "volatile_corrected"),
    _labelled("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "", "gpu_ecc_errors_total", "volatile_uncorrected"),
    _labelled("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "", "gpu_ecc_errors_total", "aggregate_corrected"),
    _labelled("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "", "gpu_ecc_errors_total", "aggregate_uncorrected"),
    _labelled("DCGM_FI_DEV_ECC_SBE_VOL_SRM", "", "gpu_ecc_errors_total", "sram_volatile_corrected"),
    _labelled("DCGM_FI_DEV_ECC_DBE_VOL_SRM", "", "gpu_ecc_errors_total", "sram_volatile_uncorrected"),
    _labelled("DCGM_FI_DEV_ECC_SBE_AGG_SRM", "", "gpu_ecc_errors_total", "sram_aggregate_corrected"),
    _labelled("DCGM_FI_DEV_ECC_DBE_AGG_SRM", "", "gpu_ecc_errors_total", "sram_aggregate_uncorrected"),
    _plain(
        "DCGM_FI_DEV_THRESHOLD_SRM",
        "",
        "gpu_sram_threshold_exceeded",
        lambda gpu: _flag(gpu.sram_threshold_exceeded),
    ),
    _labelled("DCGM_FI_DEV_RETIRED_SBE", "", "gpu_retired_pages", "single_bit"),
    _labelled("DCGM_FI_DEV_RETIRED_DBE", "", "gpu_retired_pages", "double_bit"),
    _labelled("DCGM_FI_DEV_RETIRED_PENDING", "", "gpu_retired_pages", "pending"),
    _labelled("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "", "gpu_remapped_rows", "uncorrectable"),
    _labelled("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "", "gpu_remapped_rows", "correctable"),
    _plain("DCGM_FI_DEV_ROW_REMAP_FAILURE", "", "gpu_row_remap_failed", lambda gpu: _flag(gpu.remap_failed)),
    _plain("DCGM_FI_DEV_ROW_REMAP_PENDING", "", "gpu_row_remap_pending", lambda gpu: _flag(gpu.remap_pending)),
    _plain(
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "", "gpu_pcie_replays_total", lambda gpu: gpu.pcie_replays, kind="counter"
    ),
    Field(
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        # A rate, for which older counter files say "counter".
        "gauge",
        "MB/s",
        "sum without (direction) (gpu_nvlink_bytes_per_second)",
        _nvlink,
        # What DCGM calls MB here is 1000 KiB.
        1 / 1024000,
    ),
    _active("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "graphics", "gpu_graphics_active_ratio"),
    _active("DCGM_FI_PROF_SM_ACTIVE", "sm", "gpu_sm_active_ratio"),
    _active("DCGM_FI_PROF_SM_OCCUPANCY", "sm_occupancy", "gpu_sm_occupancy_ratio"),
    _active("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "tensor", "gpu_tensor_active_ratio"),
    _active("DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", "tensor_hmma", "gpu_tensor_hmma_active_ratio"),
    _active("DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE", "tensor_imma", "gpu_tensor_imma_active_ratio"),
    _active("DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE", "tensor_dfma", "gpu_tensor_dfma_active_ratio"),
    _active("DCGM_FI_PROF_DRAM_ACTIVE", "dram", "gpu_dram_active_ratio"),
    _active("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "fp64", "gpu_fp64_active_ratio"),
    _active("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "fp32", "gpu_fp32_active_ratio"),
    _active("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "fp16", "gpu_fp16_active_ratio"),
    _labelled("DCGM_FI_PROF_PCIE_TX_BYTES", "bytes/s", "gpu_pcie_bytes_per_second", "tx", kind="gauge"),
    _labelled("DCGM_FI_PROF_PCIE_RX_BYTES", "bytes/s", "gpu_pcie_bytes_per_second", "rx", kind="gauge"),
    _labelled("DCGM_FI_PROF_NVLINK_TX_BYTES", "bytes/s", "gpu_nvlink_bytes_per_second", "tx", kind="gauge"),
    _labelled("DCGM_FI_PROF_NVLINK_RX_BYTES", "bytes/s", "gpu_nvlink_bytes_per_second", "rx", kind="gauge"),
    _labelled("DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL", "bytes", "gpu_pcie_bytes_total", "tx"),
    _labelled("DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL", "bytes", "gpu_pcie_bytes_total", "rx"),
    _labelled("DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL", "cycles", "gpu_cycles_total", "sm_elapsed"),
    _labelled("DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL", "cycles", "gpu_cycles_total", "sm_active"),
    _labelled("DCGM_FI_PROF_MMA_CYCLES_ACTIVE_TOTAL", "cycles", "gpu_cycles_total", "tensor_active"),
)
"""Everything, in the order in which it is published and documented."""
