"""The exporters' series of a fleet as OpenMetrics text, for `promtool tsdb create-blocks-from openmetrics`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.cluster.fleet import IDLE_POWER, MEMORY, MODEL, POWER_LIMIT, Fleet
from dutycycle_alerter.model import LOW_SAMPLE

LONG, SHORT = 7500.0, 2100.0
"""Seconds back for which the series of the longest window are there, and all others."""

Series = tuple[str, Mapping[str, str], float, float, float]
"""Metric, labels, value at the time of writing, growth a second, seconds back for which there are samples."""


def write(path: Path, fleet: Fleet, *, at: float, until: float, interval: float) -> tuple[int, int]:
    """Series and samples written: those that a pass at `at` asks for, and on to `until`."""
    series = samples = 0
    with path.open("w", buffering=2**22) as file:
        for metric, labels, value, rate, back in _series(fleet, at):
            written = ",".join([f'{label}="{text}"' for label, text in labels.items() if text])
            name = f"{metric}{{{written}}}"
            first = at - back
            times = range(int(first - first % interval), int(until) + 1, int(interval))
            if rate:
                file.write("".join([f"{name} {value + rate * (t - at):.3f} {t}\n" for t in times]))
            else:
                file.write("".join([f"{name} {value!r} {t}\n" for t in times]))
            series, samples = series + 1, samples + len(times)
        file.write("# EOF\n")
    return series, samples


def _series(fleet: Fleet, at: float) -> Iterator[Series]:
    started = at - 3 * 3600
    age = at - started
    for node in fleet.nodes:
        here = {"node": node, "instance": f"{node}:9836"}
        yield "gpu_visible", here, 8, 0, SHORT
        yield "gpu_expected", here, 8, 0, SHORT
        yield "dutycycle_exporter_time_scale", here, 1, 0, SHORT
        yield "dutycycle_exporter_replay", here, 0, 0, SHORT
    for gpu in fleet.gpus:
        device = gpu.device
        busy, held = gpu.utilization, gpu.job is not None
        yield "gpu_info", {**device, "model": MODEL, "minor": str(gpu.index)}, 1, 0, SHORT
        yield "gpu_memory_total_bytes", device, MEMORY, 0, SHORT
        yield "gpu_memory_used_bytes", device, MEMORY * (0.5 if held else 0.005), 0, SHORT
        yield "gpu_processes", device, int(held), 0, SHORT
        yield "gpu_power_limit_watts", device, POWER_LIMIT, 0, SHORT
        yield "gpu_power_watts", device, gpu.power if held else IDLE_POWER, 0, SHORT
        yield "gpu_recovery_action", device, 0, 0, SHORT
        yield "gpu_row_remap_failed", device, 0, 0, SHORT
        for reason in ("power_cap", "sw_thermal", "hw_thermal", "power_brake"):
            yield "gpu_throttle_seconds_total", {**device, "reason": reason}, 50, 0.001, SHORT
        for direction in ("rx", "tx"):
            yield "gpu_nvlink_bytes_total", {**device, "direction": direction}, busy * 1e13, busy * 1e9 + 1, SHORT
            yield "gpu_pcie_bytes_total", {**device, "direction": direction}, busy * 1e12, busy * 1e8 + 1, SHORT
    for gpu, job in fleet.held:
        device = {**gpu.device, **job.owner, "model": MODEL}
        busy = gpu.utilization
        gaps = (1 - busy) * 0.8 if job.kind == "stalled" else 0.0
        yield "gpu_allocation", device, 1, 0, LONG
        yield "gpu_allocation_start_timestamp_seconds", device, started, 0, SHORT
        yield "workload_first_process_timestamp_seconds", device, started + 20, 0, SHORT
        yield "workload_gpu_allocated_seconds_total", device, age, 1, LONG
        yield "workload_gpu_observed_seconds_total", device, age, 1, LONG
        yield "workload_gpu_busy_seconds_total", device, age * busy, busy, LONG
        yield "workload_gpu_energy_joules_total", device, age * gpu.power, gpu.power, LONG
        for length, share in (("lt2", gaps), ("2to30", gaps / 10), ("30to600", 0.0), ("ge600", 0.0)):
            yield "workload_gpu_idle_gap_seconds_total", {**device, "length": length}, age * share, share, SHORT
        # Two of its bounds: what is asked for, and the count.
        for bound, share in (("0.15", 1.0 if busy <= LOW_SAMPLE else gaps), ("+Inf", 1.0)):
            yield "workload_gpu_utilization_samples_bucket", {**device, "le": bound}, age * share, share, SHORT
        for unit, share in (("sm", 0.7), ("tensor", 0.3), ("dram", 0.4)):
            active = share * busy
            yield "workload_gpu_active_seconds_total", {**device, "unit": unit}, age * active, active, SHORT
        yield "workload_gpu_memory_used_bytes", device, MEMORY * 0.5, 0, SHORT
        yield "workload_gpu_processes", device, 1, 0, SHORT
    for node, job in fleet.hosts:
        here = {"node": node, "cluster": "bench", "scheduler": "slurm", "workload": job.workload}
        cores = 15.5 if job.kind == "stalled" else 6.0
        yield "workload_cpu_seconds_total", here, age * cores, cores, SHORT
        yield "workload_cpu_limit_cores", here, 16, 0, SHORT
        for resource in ("io", "cpu"):
            yield "workload_pressure_seconds_total", {**here, "resource": resource}, 5, 0.01, SHORT
