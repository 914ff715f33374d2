"""The series of one device on a page: what NVML says of it, and of the processes on it."""

from __future__ import annotations

from dutycycle_exporter.contract import ACTIVITY, PROCESS
from dutycycle_exporter.departed import person
from dutycycle_exporter.exposition import Page, extended
from dutycycle_exporter.model import FinishedProcess, GpuReading, Ownership, Process
from dutycycle_exporter.views import DeviceView, Person

MOST_PROCESSES = 64
"""Processes of one device that are shown one by one."""

_ACTIVITY = {unit: f"gpu_{unit}_ratio" if unit == "sm_occupancy" else f"gpu_{unit}_active_ratio" for unit in ACTIVITY}


def add(page: Page, block: str, device: DeviceView) -> None:
    """Everything but the processes that run; `block` are the device's labels."""
    _device(page, block, device)
    _health(page, block, device.reading)
    _activity(page, block, device.reading)
    for process, whose in device.departed:
        _departed(page, _process_labels(block, process.pid, whose), process)


def add_processes(page: Page, block: str, gpu: GpuReading, ownership: Ownership) -> None:
    """Those with the most memory, and how many there are beside them."""
    if gpu.processes is None:
        return
    shown = sorted(gpu.processes, key=_by_memory)[:MOST_PROCESSES]
    for process in shown:
        one = _process_labels(block, process.pid, person(process.pid, ownership))
        page.add("gpu_process_memory_bytes", one, process.memory)
        page.add("gpu_process_utilization_ratio", one, process.utilization)
        page.add("gpu_process_memory_activity_ratio", one, process.memory_activity)
    page.add("gpu_processes_hidden", block, len(gpu.processes) - len(shown))


def _device(page: Page, block: str, device: DeviceView) -> None:
    gpu = device.reading
    identity = (
        ("model", gpu.model),
        ("minor", "" if gpu.minor is None else str(gpu.minor)),
        ("pci_bus_id", gpu.pci_bus_id),
        ("mig_mode", gpu.mig_mode),
        ("mig_profile", gpu.mig_profile),
    )
    page.add("gpu_info", extended(block, *identity), 1)
    page.add("gpu_utilization_ratio", block, gpu.utilization)
    page.add("gpu_busy_seconds_total", block, device.busy)
    page.add("gpu_observed_seconds_total", block, device.observed)
    page.add("gpu_last_busy_timestamp_seconds", block, device.last_busy)
    page.add("gpu_memory_used_bytes", block, gpu.memory_used)
    page.add("gpu_memory_total_bytes", block, gpu.memory_total)
    page.add("gpu_memory_reserved_bytes", block, gpu.memory_reserved)
    page.add("gpu_memory_activity_ratio", block, gpu.memory_activity)
    page.add("gpu_encoder_utilization_ratio", block, gpu.encoder_utilization)
    page.add("gpu_decoder_utilization_ratio", block, gpu.decoder_utilization)
    page.add("gpu_power_watts", block, device.power)
    page.add("gpu_power_limit_watts", block, gpu.power_limit)
    page.add("gpu_energy_joules_total", block, gpu.energy)
    page.add_each("gpu_temperature_celsius", block, "sensor", gpu.temperatures)
    page.add("gpu_fan_ratio", block, gpu.fan)
    page.add_each("gpu_clock_hertz", block, "domain", gpu.clocks)
    page.add("gpu_performance_state", block, gpu.performance_state)
    page.add("gpu_processes", block, None if gpu.processes is None else len(gpu.processes))


def _health(page: Page, block: str, gpu: GpuReading) -> None:
    for name, label, values in (
        ("gpu_throttle_seconds_total", "reason", gpu.throttle),
        ("gpu_pcie_bytes_total", "direction", gpu.pcie_bytes),
        ("gpu_nvlink_bytes_total", "direction", gpu.nvlink_bytes),
        ("gpu_ecc_errors_total", "type", gpu.ecc_errors),
        ("gpu_remapped_rows", "type", gpu.remapped_rows),
        ("gpu_retired_pages", "type", gpu.retired_pages),
        ("gpu_cycles_total", "unit", gpu.cycles),
    ):
        page.add_each(name, block, label, values)
    page.add("gpu_pcie_replays_total", block, gpu.pcie_replays)
    page.add("gpu_sram_threshold_exceeded", block, gpu.sram_threshold_exceeded)
    page.add("gpu_row_remap_pending", block, gpu.remap_pending)
    page.add("gpu_row_remap_failed", block, gpu.remap_failed)
    page.add("gpu_recovery_action", block, gpu.recovery_action)


def _activity(page: Page, block: str, gpu: GpuReading) -> None:
    if gpu.activity is None:
        return
    for unit, ratio in gpu.activity.units:
        page.add(_ACTIVITY[unit], block, ratio)
    page.add_each("gpu_pcie_bytes_per_second", block, "direction", gpu.activity.pcie)
    page.add_each("gpu_nvlink_bytes_per_second", block, "direction", gpu.activity.nvlink)


def _departed(page: Page, block: str, process: FinishedProcess) -> None:
    page.add("gpu_process_lifetime_seconds", block, process.seconds)
    page.add("gpu_process_lifetime_utilization_ratio", block, process.utilization)
    page.add("gpu_process_lifetime_memory_activity_ratio", block, process.memory_activity)
    page.add("gpu_process_lifetime_max_memory_bytes", block, process.max_memory)


def _by_memory(process: Process) -> tuple[float, int]:
    return -(process.memory or 0.0), process.pid


def _process_labels(block: str, pid: int, whose: Person) -> str:
    values = (str(pid), whose.user, whose.workload, whose.command)
    return extended(block, *zip(PROCESS[-len(values) :], values, strict=True))
