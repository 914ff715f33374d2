"""ECC errors of on-chip memory: their counts, the threshold, and who may read them."""

from __future__ import annotations

import pynvml
import pytest

from tests.fakes.nvml import A100, RTX_3080_TI, V100

CALL = "nvmlDeviceGetSramEccErrorStatus"


def sram(gpu):
    return {kind: count for kind, count in gpu.ecc_errors if kind.startswith("sram")}


def test_sram_errors_are_counted_apart(make_rack):
    rack = make_rack(model=A100)
    rack.driver.ecc_errors(0, corrected=50, uncorrected=10)
    rack.driver.sram_errors(0, corrected=5, parity=1, sec_ded=2)
    rack.driver.sram_errors(0, corrected=70, parity=10, sec_ded=20, aggregate=True, threshold_exceeded=True)
    gpu = rack.turn().gpu
    assert sram(gpu) == {
        "sram_volatile_corrected": 5,
        "sram_volatile_uncorrected": 3,
        "sram_aggregate_corrected": 70,
        "sram_aggregate_uncorrected": 30,
    }
    assert gpu.sram_threshold_exceeded is True
    assert dict(gpu.ecc_errors)["volatile_corrected"] == 50


def test_gpu_without_sram_errors_has_zeros(make_rack):
    gpu = make_rack(model=A100).turn().gpu
    assert (set(sram(gpu).values()), len(sram(gpu)), gpu.sram_threshold_exceeded) == ({0}, 4, False)


@pytest.mark.parametrize("model", [V100, RTX_3080_TI], ids=lambda model: model.name)
def test_gpu_that_does_not_count_sram_errors_has_none(make_rack, model):
    rack = make_rack(model=model).turn(2)
    assert (sram(rack.gpu), rack.gpu.sram_threshold_exceeded) == ({}, None)
    assert rack.snapshot.failures == {}


def test_sram_errors_are_read_once_a_minute(make_rack):
    rack = make_rack(model=A100).turn(12)
    assert rack.driver.state.calls(CALL) == 1
    rack.driver.sram_errors(0, corrected=1)
    assert sram(rack.turn().gpu)["sram_volatile_corrected"] == 1
    assert rack.driver.state.calls(CALL) == 2


def test_sram_errors_that_could_not_be_read_are_missing_and_counted(make_rack):
    rack = make_rack(model=A100).turn(12)
    rack.driver.fail(CALL, pynvml.NVML_ERROR_UNKNOWN)
    rack.turn()
    assert (sram(rack.gpu), rack.gpu.sram_threshold_exceeded) == ({}, None)
    assert rack.snapshot.failures == {(CALL, "unknown"): 1}


def test_call_without_permission_is_repeated_once_an_hour(make_rack):
    rack = make_rack(model=A100)
    rack.driver.fail(CALL, pynvml.NVML_ERROR_NO_PERMISSION)
    failures = 0
    for _ in range(720):
        failures += rack.turn().snapshot.failures.get((CALL, "no_permission"), 0)
    assert (failures, rack.driver.state.calls(CALL)) == (1, 1)
    assert sram(rack.gpu) == {}
    rack.driver.heal(CALL)
    assert len(sram(rack.turn(13).gpu)) == 4
