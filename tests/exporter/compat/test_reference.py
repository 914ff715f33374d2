"""docs/dcgm.md maps or names as missing everything that dcgm-exporter's own counter files list."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

from dutycycle_exporter.compat.dcgm_fields import FIELDS, LABELS
from dutycycle_exporter.contract import FAMILIES
from tools import reference_dcgm

# The rows of default-counters.csv and dcp-metrics-included.csv, those that are commented out there included.
COUNTER_FILES = [
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_MEM_CLOCK",
    "DCGM_FI_DEV_MEMORY_TEMP",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "DCGM_FI_DEV_PCIE_TX_THROUGHPUT",
    "DCGM_FI_DEV_PCIE_RX_THROUGHPUT",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_DEV_ENC_UTIL",
    "DCGM_FI_DEV_DEC_UTIL",
    "DCGM_FI_DEV_XID_ERRORS",
    "DCGM_FI_DEV_POWER_VIOLATION",
    "DCGM_FI_DEV_THERMAL_VIOLATION",
    "DCGM_FI_DEV_SYNC_BOOST_VIOLATION",
    "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION",
    "DCGM_FI_DEV_LOW_UTIL_VIOLATION",
    "DCGM_FI_DEV_RELIABILITY_VIOLATION",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_RESERVED",
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
    "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
    "DCGM_FI_DEV_RETIRED_SBE",
    "DCGM_FI_DEV_RETIRED_DBE",
    "DCGM_FI_DEV_RETIRED_PENDING",
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_L0",
    "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE",
    "DCGM_FI_NVML_VERSION",
    "DCGM_FI_DEV_BRAND",
    "DCGM_FI_DEV_SERIAL",
    "DCGM_FI_DEV_OEM_INFOROM_VER",
    "DCGM_FI_DEV_ECC_INFOROM_VER",
    "DCGM_FI_DEV_POWER_INFOROM_VER",
    "DCGM_FI_DEV_INFOROM_IMAGE_VER",
    "DCGM_FI_DEV_VBIOS_VERSION",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_SM_OCCUPANCY",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
    "DCGM_FI_PROF_PCIE_TX_BYTES",
    "DCGM_FI_PROF_PCIE_RX_BYTES",
    "DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL",
    "DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL",
    "DCGM_FI_PROF_MMA_CYCLES_ACTIVE_TOTAL",
    "DCGM_FI_PROF_DMMA_CYCLES_ACTIVE_TOTAL",
    "DCGM_FI_PROF_HMMA_CYCLES_ACTIVE_TOTAL",
    "DCGM_FI_PROF_IMMA_CYCLES_ACTIVE_TOTAL",
    "DCGM_FI_PROF_DFMA_CYCLES_ACTIVE_TOTAL",
    "DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL",
    "DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL",
    "DCGM_FI_PROF_INT_CYCLES_ACTIVE_TOTAL",
    "DCGM_FI_PROF_FP64_CYCLES_ACTIVE_TOTAL",
    "DCGM_FI_PROF_FP32_CYCLES_ACTIVE_TOTAL",
    "DCGM_FI_PROF_FP16_CYCLES_ACTIVE_TOTAL",
    "DCGM_EXP_XID_ERRORS_COUNT",
    "DCGM_EXP_XID_ERRORS_TOTAL",
    "DCGM_EXP_CLOCK_EVENTS_COUNT",
    "DCGM_EXP_CLOCK_EVENTS_TOTAL",
    "DCGM_EXP_GPU_HEALTH_STATUS",
    "DCGM_EXP_P2P_STATUS",
]

SHOWN = {field.name for field in FIELDS}
MISSING = [name for names, _, _ in reference_dcgm.GAPS for name in names]


@pytest.mark.parametrize("name", COUNTER_FILES)
def test_every_row_of_dcgm_exporters_counter_files_is_either_shown_or_named_as_missing(name):
    missing = any(fnmatchcase(name, pattern) for pattern in MISSING)
    assert (name in SHOWN) != missing


def test_nothing_that_is_shown_is_named_as_missing():
    assert not [name for name in SHOWN for pattern in MISSING if fnmatchcase(name, pattern)]


def test_the_page_has_every_family_with_the_query_that_gives_it():
    page = reference_dcgm.document().decode()
    for field in FIELDS:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{field.name}` |")]
        assert row.split(" | ")[1] == field.kind
        assert row.endswith(f"| `{field.formula}` |") or field.name == "DCGM_FI_DEV_XID_ERRORS"


def test_every_label_is_explained():
    beyond = {label for field in FIELDS for label in field.labels}
    assert [name for name, _ in reference_dcgm.LABELS[: len(LABELS)]] == list(LABELS)
    assert {name for name, _ in reference_dcgm.LABELS[len(LABELS) :]} == beyond


def test_what_there_is_instead_exists():
    for _, _, instead in reference_dcgm.GAPS:
        for name in re.findall(r"\bgpu_\w+", instead):
            assert name in FAMILIES
        for name in re.findall(r"\bDCGM_\w+", instead):
            assert name in SHOWN
