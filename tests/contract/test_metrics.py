"""Metric names, kinds and labels are those of the design, written here a second time."""

from __future__ import annotations

import re

import pytest

from dutycycle_exporter import contract
from dutycycle_exporter.contract import FAMILIES

DEVICE = "node gpu gpu_uuid mig"
OWNED = f"{DEVICE} cluster scheduler workload namespace pod job_id user account partition model"
PROCESS = f"{DEVICE} pid user workload command"
WORKLOAD = "node cluster scheduler workload"

DESIGN = {
    "gpu_info": ("gauge", f"{DEVICE} model minor pci_bus_id mig_mode mig_profile"),
    "gpu_driver_info": ("gauge", "node driver_version cuda_version nvml_version"),
    "gpu_expected": ("gauge", "node"),
    "gpu_visible": ("gauge", "node"),
    "gpu_utilization_ratio": ("gauge", DEVICE),
    "gpu_busy_seconds_total": ("counter", DEVICE),
    "gpu_observed_seconds_total": ("counter", DEVICE),
    "gpu_last_busy_timestamp_seconds": ("gauge", DEVICE),
    "gpu_memory_used_bytes": ("gauge", DEVICE),
    "gpu_memory_total_bytes": ("gauge", DEVICE),
    "gpu_memory_reserved_bytes": ("gauge", DEVICE),
    "gpu_memory_activity_ratio": ("gauge", DEVICE),
    "gpu_encoder_utilization_ratio": ("gauge", DEVICE),
    "gpu_decoder_utilization_ratio": ("gauge", DEVICE),
    "gpu_power_watts": ("gauge", DEVICE),
    "gpu_power_limit_watts": ("gauge", DEVICE),
    "gpu_energy_joules_total": ("counter", DEVICE),
    "gpu_temperature_celsius": ("gauge", f"{DEVICE} sensor"),
    "gpu_fan_ratio": ("gauge", DEVICE),
    "gpu_clock_hertz": ("gauge", f"{DEVICE} domain"),
    "gpu_performance_state": ("gauge", DEVICE),
    "gpu_processes": ("gauge", DEVICE),
    "gpu_graphics_active_ratio": ("gauge", DEVICE),
    "gpu_sm_active_ratio": ("gauge", DEVICE),
    "gpu_sm_occupancy_ratio": ("gauge", DEVICE),
    "gpu_tensor_active_ratio": ("gauge", DEVICE),
    "gpu_tensor_hmma_active_ratio": ("gauge", DEVICE),
    "gpu_tensor_imma_active_ratio": ("gauge", DEVICE),
    "gpu_tensor_dfma_active_ratio": ("gauge", DEVICE),
    "gpu_dram_active_ratio": ("gauge", DEVICE),
    "gpu_fp64_active_ratio": ("gauge", DEVICE),
    "gpu_fp32_active_ratio": ("gauge", DEVICE),
    "gpu_fp16_active_ratio": ("gauge", DEVICE),
    "gpu_pcie_bytes_per_second": ("gauge", f"{DEVICE} direction"),
    "gpu_nvlink_bytes_per_second": ("gauge", f"{DEVICE} direction"),
    "gpu_cycles_total": ("counter", f"{DEVICE} unit"),
    "gpu_throttle_seconds_total": ("counter", f"{DEVICE} reason"),
    "gpu_pcie_bytes_total": ("counter", f"{DEVICE} direction"),
    "gpu_nvlink_bytes_total": ("counter", f"{DEVICE} direction"),
    "gpu_pcie_replays_total": ("counter", DEVICE),
    "gpu_ecc_errors_total": ("counter", f"{DEVICE} type"),
    "gpu_sram_threshold_exceeded": ("gauge", DEVICE),
    "gpu_remapped_rows": ("gauge", f"{DEVICE} type"),
    "gpu_row_remap_pending": ("gauge", DEVICE),
    "gpu_row_remap_failed": ("gauge", DEVICE),
    "gpu_retired_pages": ("gauge", f"{DEVICE} type"),
    "gpu_recovery_action": ("gauge", DEVICE),
    "gpu_xid_errors_total": ("counter", f"{DEVICE} xid class"),
    "gpu_xid_last_timestamp_seconds": ("gauge", f"{DEVICE} xid class"),
    "gpu_process_memory_bytes": ("gauge", PROCESS),
    "gpu_process_utilization_ratio": ("gauge", PROCESS),
    "gpu_process_memory_activity_ratio": ("gauge", PROCESS),
    "gpu_process_lifetime_seconds": ("gauge", PROCESS),
    "gpu_process_lifetime_utilization_ratio": ("gauge", PROCESS),
    "gpu_process_lifetime_memory_activity_ratio": ("gauge", PROCESS),
    "gpu_process_lifetime_max_memory_bytes": ("gauge", PROCESS),
    "gpu_processes_hidden": ("gauge", DEVICE),
    "gpu_allocation": ("gauge", OWNED),
    "gpu_allocation_start_timestamp_seconds": ("gauge", OWNED),
    "workload_first_process_timestamp_seconds": ("gauge", OWNED),
    "workload_gpu_allocated_seconds_total": ("counter", OWNED),
    "workload_gpu_observed_seconds_total": ("counter", OWNED),
    "workload_gpu_busy_seconds_total": ("counter", OWNED),
    "workload_gpu_active_seconds_total": ("counter", f"{OWNED} unit"),
    "workload_gpu_idle_gap_seconds_total": ("counter", f"{OWNED} length"),
    "workload_gpu_utilization_samples": ("histogram", OWNED),
    "workload_gpu_energy_joules_total": ("counter", OWNED),
    "workload_gpu_throttle_seconds_total": ("counter", f"{OWNED} reason"),
    "workload_gpu_memory_used_bytes": ("gauge", OWNED),
    "workload_gpu_processes": ("gauge", OWNED),
    "workload_cpu_seconds_total": ("counter", WORKLOAD),
    "workload_cpu_limit_cores": ("gauge", WORKLOAD),
    "workload_pressure_seconds_total": ("counter", f"{WORKLOAD} resource"),
    "workload_label": ("gauge", f"{WORKLOAD} label value"),
    "dutycycle_exporter_build_info": ("gauge", "version"),
    "dutycycle_exporter_start_timestamp_seconds": ("gauge", ""),
    "dutycycle_exporter_time_scale": ("gauge", ""),
    "dutycycle_exporter_replay": ("gauge", ""),
    "dutycycle_exporter_collector_success": ("gauge", "collector"),
    "dutycycle_exporter_collector_age_seconds": ("gauge", "collector"),
    "dutycycle_exporter_collector_duration_seconds": ("gauge", "collector"),
    "dutycycle_exporter_read_failures_total": ("counter", "call error"),
    "dutycycle_exporter_samples_dropped_total": ("counter", "reason"),
    "dutycycle_exporter_values_clamped_total": ("counter", "unit"),
    "dutycycle_exporter_scrapes_rejected_total": ("counter", ""),
    "dutycycle_exporter_config_last_reload_successful": ("gauge", ""),
    "dutycycle_exporter_config_last_reload_success_timestamp_seconds": ("gauge", ""),
    "dutycycle_exporter_attribution_failures_total": ("counter", "source reason"),
    "dutycycle_exporter_child_restarts_total": ("counter", "reason"),
}


def test_families_kinds_and_labels_are_the_designs() -> None:
    published = {family.name: (family.kind, " ".join(family.labels)) for family in FAMILIES.values()}
    assert published == DESIGN


def test_sample_buckets_and_gap_lengths_are_the_designs() -> None:
    assert contract.UTILIZATION_BUCKETS == (0, 0.05, 0.15, 0.25, 0.5, 0.79, 0.95, 1)
    assert contract.GAP_LENGTHS == ("lt2", "2to30", "30to600", "ge600")


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_names_follow_prometheus_conventions(family: contract.Family) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", family.name)
    assert family.name.endswith("_total") == (family.kind == "counter")
    assert len(set(family.labels)) == len(family.labels) <= 30
    assert family.help.endswith(".")


def test_no_name_is_declared_twice() -> None:
    assert len(FAMILIES) == sum(len(section.families) for section in contract.SECTIONS)
