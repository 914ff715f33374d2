"""The one table of every metric family that the exporter publishes: name, kind, labels, meaning.

The collector builds its output from this table, `docs/metrics.md` is generated from it, and a contract test compares it
with the design. A name that is not here does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "histogram"]

NODE = ("node",)
DEVICE = ("node", "gpu", "gpu_uuid", "mig")
OWNER = (
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
OWNERSHIP = DEVICE + OWNER
WORKLOAD = ("node", "cluster", "scheduler", "workload")

UTILIZATION_BUCKETS = (0.0, 0.05, 0.15, 0.25, 0.5, 0.79, 0.95, 1.0)
"""Upper bounds (`le`, ratios) of `workload_gpu_utilization_samples`; +Inf follows."""

PROCESS = (*DEVICE, "pid", "user", "workload", "command")

ACTIVITY = (
    "graphics",
    "sm",
    "sm_occupancy",
    "tensor",
    "tensor_hmma",
    "tensor_imma",
    "tensor_dfma",
    "dram",
    "fp64",
    "fp32",
    "fp16",
)
"""What GPM tells of a GPU's units, in the order in which it is published."""

INTEGRATED = ("sm", "tensor", "dram", "fp64", "fp32", "fp16")
"""Values of `unit`: of these the time for which a workload used them is added up."""

CYCLES = ("sm_elapsed", "sm_active", "tensor_active")
"""Raw counters of GPM, which newer drivers have: their quotients are exact means over any range."""

RESTART_REASONS = (
    "exit",
    "hang",
    "garbled",
    "start",
    "stuck",
    "released",
    "reload",
    "gpu_lost",
    "uninitialized",
    "driver_not_loaded",
    "library_not_found",
    "library_not_loadable",
    "lib_rm_version_mismatch",
)
"""Why an NVML child is replaced: the reasons that are known, shown at 0 from the start. NVML may give others."""

GAP_LENGTHS = ("lt2", "2to30", "30to600", "ge600")
"""Values of `length`: under 2 s, 2 to 30 s, 30 to 600 s, 600 s and more, before division by the time scale."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family as scrapers see it; `name` is complete, with `_total` where it is a counter."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True)
class Section:
    """Families with the same subject, in the order in which they are published and documented."""

    title: str
    about: str
    families: tuple[Family, ...]


SECTIONS = (
    Section(
        "Devices",
        "What NVML says of each GPU. `gpu` is NVML's index, `gpu_uuid` the physical GPU's, `mig` empty for a "
        "whole GPU.",
        (
            Family(
                "gpu_info",
                "gauge",
                (*DEVICE, "model", "minor", "pci_bus_id", "mig_mode", "mig_profile"),
                "Identity; always 1.",
            ),
            Family(
                "gpu_driver_info",
                "gauge",
                (*NODE, "driver_version", "cuda_version", "nvml_version"),
                "Versions; always 1.",
            ),
            Family(
                "gpu_expected",
                "gauge",
                NODE,
                "NVIDIA GPUs that PCI sysfs shows, without those that the driver was told to leave out.",
            ),
            Family(
                "gpu_visible",
                "gauge",
                NODE,
                "GPUs that NVML shows, without those that are left out as calls about them never return; absent while "
                "NVML cannot be read, and after a start until holders are known.",
            ),
            Family(
                "gpu_utilization_ratio",
                "gauge",
                DEVICE,
                "Newest duty cycle: share of NVML's last sample period with a kernel resident.",
            ),
            Family("gpu_busy_seconds_total", "counter", DEVICE, "Integral of the duty cycle over NVML's own samples."),
            Family(
                "gpu_observed_seconds_total",
                "counter",
                DEVICE,
                "Time for which the duty cycle was measured; utilization over a range is busy / observed.",
            ),
            Family("gpu_last_busy_timestamp_seconds", "gauge", DEVICE, "When a sample was last over 5 %."),
            Family("gpu_memory_used_bytes", "gauge", DEVICE, "Memory in use, without what the driver reserves."),
            Family("gpu_memory_total_bytes", "gauge", DEVICE, "Memory of the device."),
            Family("gpu_memory_reserved_bytes", "gauge", DEVICE, "Memory that the driver reserves for itself."),
            Family(
                "gpu_memory_activity_ratio",
                "gauge",
                DEVICE,
                "Share of the last sample period in which memory was read or written.",
            ),
            Family(
                "gpu_encoder_utilization_ratio",
                "gauge",
                DEVICE,
                "Utilization of the video encoder over the last sample period.",
            ),
            Family(
                "gpu_decoder_utilization_ratio",
                "gauge",
                DEVICE,
                "Utilization of the video decoder over the last sample period.",
            ),
            Family(
                "gpu_power_watts",
                "gauge",
                DEVICE,
                "Mean power between the last two readings of the energy counter; else the sensor's, also where the "
                "counter stands still.",
            ),
            Family("gpu_power_limit_watts", "gauge", DEVICE, "Power limit in force."),
            Family("gpu_energy_joules_total", "counter", DEVICE, "Energy as the device counts it."),
            Family("gpu_temperature_celsius", "gauge", (*DEVICE, "sensor"), "Temperature by sensor."),
            Family("gpu_fan_ratio", "gauge", DEVICE, "Intended fan speed; absent on GPUs without a fan."),
            Family("gpu_clock_hertz", "gauge", (*DEVICE, "domain"), "Clock by domain: graphics, sm, memory, video."),
            Family("gpu_performance_state", "gauge", DEVICE, "0 (highest) to 15 (lowest)."),
            Family("gpu_processes", "gauge", DEVICE, "Compute contexts on the device, without what only draws."),
        ),
    ),
    Section(
        "Units of a GPU",
        "From GPM (Hopper and later), also per MIG instance: means over the time since the previous sample. Absent "
        "where the GPU or the driver has no GPM.",
        (
            *(
                Family(f"gpu_{name}_ratio", "gauge", DEVICE, text)
                for name, text in (
                    ("graphics_active", "Share of time in which the compute or graphics engine was busy."),
                    ("sm_active", "Share of time and of streaming multiprocessors with at least one warp."),
                    ("sm_occupancy", "Warps resident on the multiprocessors, of the most that there can be."),
                    ("tensor_active", "Share of time in which the tensor cores worked."),
                    ("tensor_hmma_active", "The same, with 16-bit floating point."),
                    ("tensor_imma_active", "The same, with integers."),
                    ("tensor_dfma_active", "The same, with 64-bit floating point."),
                    ("dram_active", "Share of the memory's bandwidth that was used."),
                    ("fp64_active", "Share of time in which the 64-bit floating-point units worked."),
                    ("fp32_active", "Share of time in which the 32-bit floating-point units worked."),
                    ("fp16_active", "Share of time in which the 16-bit floating-point units worked."),
                )
            ),
            Family(
                "gpu_pcie_bytes_per_second",
                "gauge",
                (*DEVICE, "direction"),
                "Mean PCIe traffic: tx leaves the GPU, rx comes to it.",
            ),
            Family(
                "gpu_nvlink_bytes_per_second",
                "gauge",
                (*DEVICE, "direction"),
                "Mean NVLink traffic over all links: tx leaves the GPU, rx comes to it.",
            ),
            Family(
                "gpu_cycles_total",
                "counter",
                (*DEVICE, "unit"),
                "Cycles that elapsed on the multiprocessors, that they and the tensor cores were active; driver 595 "
                "and later.",
            ),
        ),
    ),
    Section(
        "Links and health",
        "Counters are the device's own; they begin anew when its driver is loaded.",
        (
            Family(
                "gpu_throttle_seconds_total",
                "counter",
                (*DEVICE, "reason"),
                "Time for which the clocks were held down, by reason; reasons overlap.",
            ),
            Family(
                "gpu_pcie_bytes_total",
                "counter",
                (*DEVICE, "direction"),
                "PCIe traffic since the exporter began to read the GPU: tx leaves it. Only with GPM, which tells how "
                "often the device's own counter wrapped.",
            ),
            Family(
                "gpu_nvlink_bytes_total",
                "counter",
                (*DEVICE, "direction"),
                "NVLink traffic over all links: tx leaves the GPU.",
            ),
            Family("gpu_pcie_replays_total", "counter", DEVICE, "PCIe packets that had to be sent again."),
            Family(
                "gpu_ecc_errors_total",
                "counter",
                (*DEVICE, "type"),
                "Memory errors since the driver was loaded (volatile) or ever (aggregate), corrected or uncorrected. "
                "The types with `sram` are the part of these that happened in on-chip memory (Ampere and later).",
            ),
            Family(
                "gpu_sram_threshold_exceeded",
                "gauge",
                DEVICE,
                "1 when on-chip memory (SRAM) had more errors than NVIDIA's field diagnostic accepts. Ampere and "
                "later.",
            ),
            Family(
                "gpu_remapped_rows",
                "gauge",
                (*DEVICE, "type"),
                "Rows of memory that were replaced, by the errors that made it necessary: correctable, uncorrectable.",
            ),
            Family("gpu_row_remap_pending", "gauge", DEVICE, "1 while a row waits for a reset to be replaced."),
            Family("gpu_row_remap_failed", "gauge", DEVICE, "1 when a row could not be replaced: the GPU must be."),
            Family(
                "gpu_retired_pages",
                "gauge",
                (*DEVICE, "type"),
                "Pages of memory taken out of use, on GPUs before Ampere: single_bit, double_bit, pending.",
            ),
            Family(
                "gpu_recovery_action",
                "gauge",
                DEVICE,
                "What the driver asks for: 0 nothing, 1 reset the GPU, 2 reboot the node, 3 drain peer-to-peer, "
                "4 drain and reset, 5 recover the IMEX domain, 6 reset the bus, 7 reboot the system.",
            ),
            Family(
                "gpu_xid_errors_total",
                "counter",
                (*DEVICE, "xid", "class"),
                "Errors that the driver reported (XID), since the exporter started. A new series is shown at 0 for "
                "`--series-hold`, so that `increase` sees the first one, too; to hear of it at once, alert on "
                "`time() - gpu_xid_last_timestamp_seconds`.",
            ),
            Family(
                "gpu_xid_last_timestamp_seconds", "gauge", (*DEVICE, "xid", "class"), "When the XID was last reported."
            ),
        ),
    ),
    Section(
        "Processes",
        "With `--collect.processes`; at most 64 per GPU, those with the most memory. Processes that ended, with "
        "`--collect.accounting` and where the GPU's accounting mode is on.",
        (
            Family("gpu_process_memory_bytes", "gauge", PROCESS, "Memory of the process on the GPU."),
            Family(
                "gpu_process_utilization_ratio",
                "gauge",
                PROCESS,
                "Share of the GPU's time that the process used since the previous sample.",
            ),
            Family(
                "gpu_process_memory_activity_ratio",
                "gauge",
                PROCESS,
                "Share of time in which the process read or wrote the GPU's memory.",
            ),
            Family("gpu_process_lifetime_seconds", "gauge", PROCESS, "How long a process that has ended held the GPU."),
            Family(
                "gpu_process_lifetime_utilization_ratio",
                "gauge",
                PROCESS,
                "Utilization over the life of a process that has ended.",
            ),
            Family(
                "gpu_process_lifetime_memory_activity_ratio",
                "gauge",
                PROCESS,
                "Memory activity over the life of a process that has ended.",
            ),
            Family(
                "gpu_process_lifetime_max_memory_bytes",
                "gauge",
                PROCESS,
                "Most memory that a process that has ended had on the GPU.",
            ),
            Family("gpu_processes_hidden", "gauge", DEVICE, "Processes on the GPU that are not shown one by one."),
        ),
    ),
    Section(
        "Ownership",
        "One series per workload on a GPU, present from allocation to its end. A new series is shown at 0 for "
        "`--series-hold`, and an ended one for as long at its final value, from when the counters that are slow to "
        "read were read once more: up to 30 s after the end, at most 2 min. So PromQL's `increase` loses nothing. "
        "`gpu` and `model` are empty for a GPU that NVML has not shown since the exporter began: only who holds it is "
        "known.",
        (
            Family(
                "gpu_allocation",
                "gauge",
                OWNERSHIP,
                "The workload's share of the GPU; 1/k while k workloads hold it. Ends with the allocation.",
            ),
            Family("gpu_allocation_start_timestamp_seconds", "gauge", OWNERSHIP, "When the allocation began."),
            Family(
                "workload_first_process_timestamp_seconds",
                "gauge",
                OWNERSHIP,
                "When the first process of the workload that held the GPU started.",
            ),
            Family("workload_gpu_allocated_seconds_total", "counter", OWNERSHIP, "Share x time."),
            Family(
                "workload_gpu_observed_seconds_total",
                "counter",
                OWNERSHIP,
                "Share x time for which the duty cycle was measured. While k workloads hold a GPU, one's busy time may "
                "be up to k times its observed time; added up over them it is not more.",
            ),
            Family(
                "workload_gpu_busy_seconds_total",
                "counter",
                OWNERSHIP,
                "Busy time of this workload. On a shared GPU it is divided by per-process utilization, and evenly "
                "where that is not known; processes that are nobody's take theirs away.",
            ),
            Family(
                "workload_gpu_active_seconds_total",
                "counter",
                (*OWNERSHIP, "unit"),
                "Share x time in which a unit of the GPU worked: sm, tensor, dram, fp64, fp32, fp16, from GPM.",
            ),
            Family(
                "workload_gpu_idle_gap_seconds_total",
                "counter",
                (*OWNERSHIP, "length"),
                "Time in idle gaps (samples of 5 % or less) by the gap's length, credited when it ends. A gap that "
                "touches unmeasured time has an unknown length: it counts only from 600 measured seconds on. On a "
                "shared GPU the gaps are the device's.",
            ),
            Family(
                "workload_gpu_utilization_samples",
                "histogram",
                OWNERSHIP,
                "Seconds by utilization: each sample weighs the time it stands for; on a shared GPU the device's.",
            ),
            Family("workload_gpu_energy_joules_total", "counter", OWNERSHIP, "Share of the device's energy."),
            Family(
                "workload_gpu_throttle_seconds_total",
                "counter",
                (*OWNERSHIP, "reason"),
                "Share x time for which the device's clocks were held down.",
            ),
            Family(
                "workload_gpu_memory_used_bytes",
                "gauge",
                OWNERSHIP,
                "Memory of the workload's processes on the GPU; absent as `workload_gpu_processes` is.",
            ),
            Family(
                "workload_gpu_processes",
                "gauge",
                OWNERSHIP,
                "The workload's processes on the GPU, also those that only draw; absent while it is not known whose "
                "some process there is.",
            ),
        ),
    ),
    Section(
        "Workloads on a node",
        "From the workload's cgroup; absent where the kernel or the cgroup version does not give them.",
        (
            Family("workload_cpu_seconds_total", "counter", WORKLOAD, "CPU time."),
            Family(
                "workload_cpu_limit_cores",
                "gauge",
                WORKLOAD,
                "CPU cores it may use: quota or CPU set, whichever is less.",
            ),
            Family(
                "workload_pressure_seconds_total",
                "counter",
                (*WORKLOAD, "resource"),
                "Time in which some task waited for the resource (PSI): cpu, io, memory.",
            ),
            Family(
                "workload_label",
                "gauge",
                (*WORKLOAD, "label", "value"),
                "A label of the workload's pod that `--kubernetes.pod-labels` lets through; always 1.",
            ),
        ),
    ),
    Section(
        "The exporter itself",
        "How old and how complete the above is.",
        (
            Family("dutycycle_exporter_build_info", "gauge", ("version",), "Version; always 1."),
            Family("dutycycle_exporter_start_timestamp_seconds", "gauge", (), "When the exporter started."),
            Family(
                "dutycycle_exporter_time_scale",
                "gauge",
                (),
                "Factor by which durations are shortened; 1 in production.",
            ),
            Family("dutycycle_exporter_replay", "gauge", (), "1 while a recording is played instead of NVML."),
            Family(
                "dutycycle_exporter_collector_success",
                "gauge",
                ("collector",),
                "Whether the collector's last run succeeded.",
            ),
            Family(
                "dutycycle_exporter_collector_age_seconds",
                "gauge",
                ("collector",),
                "Time since the collector last succeeded; absent before.",
            ),
            Family(
                "dutycycle_exporter_collector_duration_seconds",
                "gauge",
                ("collector",),
                "Duration of the collector's last run.",
            ),
            Family(
                "dutycycle_exporter_read_failures_total",
                "counter",
                ("call", "error"),
                "NVML reads that failed, by call.",
            ),
            Family(
                "dutycycle_exporter_samples_dropped_total",
                "counter",
                ("reason",),
                "Utilization samples, XIDs and readings of energy counters that stand still: not counted.",
            ),
            Family(
                "dutycycle_exporter_values_clamped_total",
                "counter",
                ("unit",),
                "Values of GPM over 1, which were taken as 1.",
            ),
            Family(
                "dutycycle_exporter_scrapes_rejected_total",
                "counter",
                (),
                "Scrapes that were turned away: others kept them waiting until their own timeout, or too many waited.",
            ),
            Family(
                "dutycycle_exporter_config_last_reload_successful",
                "gauge",
                (),
                "Whether the configuration was last read without an error.",
            ),
            Family(
                "dutycycle_exporter_config_last_reload_success_timestamp_seconds",
                "gauge",
                (),
                "When the configuration was last read without an error.",
            ),
            Family(
                "dutycycle_exporter_attribution_failures_total",
                "counter",
                ("source", "reason"),
                "What could not be used to say whose a GPU is: files of jobs, processes, answers of kubelet and API.",
            ),
            Family(
                "dutycycle_exporter_child_restarts_total",
                "counter",
                ("reason",),
                "Times the NVML child was replaced; by reason, the known ones at 0 from the start.",
            ),
        ),
    ),
)

FAMILIES: dict[str, Family] = {family.name: family for section in SECTIONS for family in section.families}
