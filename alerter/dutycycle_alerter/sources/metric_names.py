"""The metrics, labels and label values that the alerter reads of an exporter: its whole contract with it."""

from __future__ import annotations

from dutycycle_alerter.model import LOW_SAMPLE

DEVICE_LABELS = ("node", "gpu", "gpu_uuid", "mig")
OWNER_LABELS = (
    "cluster",
    "scheduler",
    "workload",
    "namespace",
    "pod",
    "job_id",
    "user",
    "account",
    "partition",
    "model",
)

GAP_LENGTHS = ("lt2", "2to30", "30to600", "ge600")

ACTIVE = "workload_gpu_active_seconds_total"
THROTTLED = "workload_gpu_throttle_seconds_total"
SAMPLES = "workload_gpu_utilization_samples_bucket"
LOW = f"{LOW_SAMPLE:g}"
"""Of the bounds (`le`) of `SAMPLES` the one that is read."""
UNITS = ("sm", "tensor", "dram")
HEAT = ("sw_thermal", "hw_thermal", "power_brake")
"""Reasons for which clocks are held down by heat or by the power brake, where the driver tells them one by one."""
HEAT_AT_ONCE = "thermal"
"""The one reason that older drivers give for heat."""
POWER_CAP = "power_cap"

# Metric name and the value of the label that tells its series apart -> place in the tuple of `history.GPU_COUNTERS`.
GPU_PLACES = {
    ("workload_gpu_allocated_seconds_total", ""): 0,
    ("workload_gpu_observed_seconds_total", ""): 1,
    ("workload_gpu_busy_seconds_total", ""): 2,
    **{("workload_gpu_idle_gap_seconds_total", length): 3 + i for i, length in enumerate(GAP_LENGTHS)},
    ("workload_gpu_energy_joules_total", ""): 7,
}
HOST_PLACES = {
    ("workload_cpu_seconds_total", ""): 0,
    ("workload_pressure_seconds_total", "io"): 1,
    ("workload_pressure_seconds_total", "cpu"): 2,
}
DEVICE_GAUGES = {
    "gpu_utilization_ratio": "utilization",
    "gpu_memory_used_bytes": "memory_used",
    "gpu_memory_total_bytes": "memory_total",
    "gpu_power_watts": "power",
    "gpu_power_limit_watts": "power_limit",
    "gpu_processes": "processes",
    "gpu_last_busy_timestamp_seconds": "last_busy_at",
}
DEVICE_COUNTERS = {"gpu_busy_seconds_total": "busy", "gpu_observed_seconds_total": "observed"}
HEALTH = {"gpu_recovery_action": "recovery_action", "gpu_row_remap_failed": "remap_failed"}
LINKS = {"gpu_nvlink_bytes_total": "nvlink", "gpu_pcie_bytes_total": "pcie"}
DIRECTIONS = ("rx", "tx")
WORKLOAD_LABEL = "workload_label"
DEVICE_THROTTLED = "gpu_throttle_seconds_total"
XID = "gpu_xid_last_timestamp_seconds"

METRICS_READ: dict[str, tuple[str, ...]] = {
    "gpu_allocation": (*DEVICE_LABELS, *OWNER_LABELS),
    "gpu_allocation_start_timestamp_seconds": (*DEVICE_LABELS, "workload"),
    "workload_first_process_timestamp_seconds": (*DEVICE_LABELS, "workload"),
    **{name: (*DEVICE_LABELS, "workload", *(["length"] if extra else [])) for name, extra in GPU_PLACES},
    ACTIVE: (*DEVICE_LABELS, "workload", "unit"),
    THROTTLED: (*DEVICE_LABELS, "workload", "reason"),
    SAMPLES: (*DEVICE_LABELS, "workload", "le"),
    "workload_gpu_memory_used_bytes": (*DEVICE_LABELS, "workload"),
    "workload_gpu_processes": (*DEVICE_LABELS, "workload"),
    "workload_cpu_seconds_total": ("node", "workload"),
    "workload_cpu_limit_cores": ("node", "workload"),
    "workload_pressure_seconds_total": ("node", "workload", "resource"),
    WORKLOAD_LABEL: ("cluster", "workload", "label", "value"),
    "gpu_info": (*DEVICE_LABELS, "model", "mig_profile"),
    **dict.fromkeys((*DEVICE_GAUGES, *DEVICE_COUNTERS, *HEALTH), DEVICE_LABELS),
    **dict.fromkeys(LINKS, (*DEVICE_LABELS, "direction")),
    DEVICE_THROTTLED: (*DEVICE_LABELS, "reason"),
    XID: (*DEVICE_LABELS, "xid"),
    "gpu_temperature_celsius": (*DEVICE_LABELS, "sensor"),
    "gpu_expected": ("node",),
    "gpu_visible": ("node",),
    "dutycycle_exporter_time_scale": (),
    "dutycycle_exporter_replay": (),
}
"""Every metric that the alerter reads, with the labels that it needs of it."""
