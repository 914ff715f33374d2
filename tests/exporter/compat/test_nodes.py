"""On nodes whose NVML is read: what it has is there under dcgm-exporter's names, too."""

from __future__ import annotations

import pytest

from dutycycle_exporter.compat.dcgm_fields import FIELDS
from tests.exporter.compat.nodes import Shown
from tests.exporter.test_golden import a100, h200, mig, shared_gpu, workstation

PROFILED = {field.name for field in FIELDS if field.name.startswith("DCGM_FI_PROF_")}
CYCLES = {name for name in PROFILED if "CYCLES" in name}
XIDS = {"DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_TOTAL"}
RETIRED = {f"DCGM_FI_DEV_RETIRED_{kind}" for kind in ("SBE", "DBE", "PENDING")}
REMAPPED = {
    *("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"),
    *("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_PENDING"),
}
ECC = {
    "DCGM_FI_DEV_THRESHOLD_SRM",
    *(
        f"DCGM_FI_DEV_ECC_{kind}_{since}_{part}"
        for kind in ("SBE", "DBE")
        for since in ("VOL", "AGG")
        for part in ("TOTAL", "SRM")
    ),
}
FAN = {"DCGM_FI_DEV_FAN_SPEED"}
NVLINK = {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"}
UTILIZATION = {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL"}


def shown_by(rig):
    return Shown(rig.service.state())


@pytest.mark.parametrize(
    ("node", "missing"),
    [
        (a100, PROFILED | RETIRED | FAN | NVLINK),
        (h200, RETIRED | FAN),
        (mig, CYCLES | XIDS | RETIRED | FAN),
        (shared_gpu, PROFILED | XIDS | RETIRED | REMAPPED | ECC | NVLINK | {"DCGM_FI_DEV_MEMORY_TEMP"}),
        (workstation, PROFILED | XIDS | FAN | NVLINK),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_node_has_all_families_but_those_that_its_gpus_or_their_driver_lack(node, missing, make_rig):
    found = shown_by(node(make_rig))
    assert {field.name for field in FIELDS} - found.families.keys() == missing


@pytest.mark.parametrize("node", [a100, h200, workstation], ids=lambda node: node.__name__)
def test_values_are_our_own_in_other_units(node, make_rig):
    found = shown_by(node(make_rig))
    for name, own, times in (
        ("DCGM_FI_DEV_GPU_UTIL", "gpu_utilization_ratio", 100),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "gpu_energy_joules_total", 1000),
        ("DCGM_FI_DEV_FB_USED", "gpu_memory_used_bytes", 2**-20),
    ):
        for sample in found.samples(name):
            assert sample.value == pytest.approx(found.own(own, gpu=sample.labels["gpu"]) * times, abs=0.5)


def test_instances_carry_their_own_owners_and_the_gpu_that_is_whole_has_no_instance(make_rig):
    found = shown_by(mig(make_rig))
    used = {
        (s.labels["gpu"], s.labels.get("GPU_I_PROFILE"), s.labels.get("hpc_job"))
        for s in found.samples("DCGM_FI_DEV_FB_USED")
    }
    assert used == {("0", "1g.10gb", None), ("0", "3g.40gb", "301"), ("1", None, None)}
    assert len(found.samples("DCGM_FI_DEV_FB_USED")) == 4
    assert {sample.labels["gpu"] for sample in found.samples("DCGM_FI_DEV_GPU_UTIL")} == {"1"}


@pytest.mark.parametrize("node", [mig, shared_gpu], ids=lambda node: node.__name__)
def test_no_series_is_there_twice(node, make_rig):
    series = [line.rpartition(" ")[0] for line in shown_by(node(make_rig)).text.splitlines() if line[0] != "#"]
    assert len(set(series)) == len(series) > 0
