"""Whichever call fails, and however: the snapshot has all the rest, nothing becomes 0, and it comes back."""

from __future__ import annotations

from dataclasses import fields

import pynvml
import pytest

from dutycycle_exporter.collected import COLLECTED
from dutycycle_exporter.model import GpuReading
from tests.fakes.nvml import RTX_3080_TI, GpuProcess, Level, Load
from tests.fakes.nvml.state import EVERY_GPU

ALL = frozenset(COLLECTED)
AT_THE_BEGINNING = {
    "nvmlInit",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlGetExcludedDeviceCount",
}
BESIDE = {"nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait", "nvmlDeviceRegisterEvents"}
"""Called on a thread of its own: see test_events."""

WHOLE = (
    "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetEncoderUtilization",
    "nvmlDeviceGetDecoderUtilization",
    "nvmlDeviceGetSamples",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetSramEccErrorStatus",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetAccountingMode",
    "nvmlDeviceGetAccountingPids",
    "nvmlDeviceGetAccountingBufferSize",
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleAlloc",
    "nvmlGpmSampleGet",
    "nvmlGpmMetricsGet",
)
CONSUMER = ("nvmlDeviceGetFanSpeed", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetFieldValues")
MIG = (
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlGpmMigSampleGet",
    "nvmlGpmMetricsGet",
)
CASES = [
    *(("whole", call) for call in WHOLE),
    *(("consumer", call) for call in CONSUMER),
    *(("mig", call) for call in MIG),
]
CODES = (
    pynvml.NVML_ERROR_UNKNOWN,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_INSUFFICIENT_SIZE,
    pynvml.NVML_ERROR_RESET_REQUIRED,
)
ROOT_ONLY = {"nvmlDeviceGetSramEccErrorStatus"}
"""Not asked for again within the turns of these tests after NO_PERMISSION: see test_sram."""
NODE_WIDE = {"nvmlDeviceGetCount", "nvmlGpmSampleAlloc"}
EXPECTED_AT_THE_END_OF_MOST = 40
"""Turns in which all is as before: GPM is tried again after some seconds, more after each failure."""


def whole(driver):
    for gpu in range(2):
        driver.accounting(gpu, True)
        driver.run(f"a{gpu}", {gpu: Load(Level(0.5), [GpuProcess(10 + gpu, 2**30), GpuProcess(20 + gpu, 2**30)])})


def mig(driver):
    for gpu in range(2):
        driver.set_mig(gpu, ["3g.40gb", "1g.10gb"])
        driver.run(f"a{gpu}", {(gpu, 0): Load(Level(0.5), [GpuProcess(10 + gpu, 2**30)])})


NODES = {
    "whole": {"before": whole},
    "consumer": {"before": whole, "model": RTX_3080_TI},
    "mig": {"before": mig},
}


def known(reading):
    """What is known of a device: {field: the labels under which there is a value}."""
    found = {}
    for field in fields(GpuReading):
        value = getattr(reading, field.name)
        if value is None or value in ((), ""):
            continue
        labelled = isinstance(value, tuple) and value and isinstance(value[0], tuple)
        found[field.name] = {name for name, _ in value} if labelled else {""}
    return found


def shape(snapshot):
    return {reading.key: known(reading) for reading in snapshot.gpus}


def values(snapshot):
    """Every single number of a snapshot."""
    found = {}
    for reading in snapshot.gpus:
        for field in fields(GpuReading):
            value = getattr(reading, field.name)
            if isinstance(value, int | float):
                found[reading.key, field.name] = value
            elif isinstance(value, tuple) and value and isinstance(value[0], tuple):
                found.update({(reading.key, field.name, name): number for name, number in value})
    return found


def within(part, rest):
    return all(labels <= rest.get(field, set()) for field, labels in part.items())


def test_every_call_that_is_made_is_here(make_rack):
    called = set()
    for node in NODES.values():
        rack = make_rack(gpus=2, collect=ALL, **node).turn(14)
        called |= set(rack.driver.state.called())
        rack.reader.close()
    assert called - AT_THE_BEGINNING - BESIDE - {"nvmlShutdown", "nvmlGpmSampleFree"} == {call for _, call in CASES}


@pytest.mark.parametrize(("node", "call"), CASES)
def test_a_call_that_fails_takes_only_what_it_gives(make_rack, node, call):
    rack = make_rack(gpus=2, collect=ALL, **NODES[node]).turn(3)
    gpu = EVERY_GPU if call in NODE_WIDE else 1
    healthy, figures = shape(rack.snapshot), values(rack.snapshot)
    spared = {reading.key for reading in rack.snapshot.gpus if reading.index == 0}
    for code in CODES:
        if call in ROOT_ONLY and code == pynvml.NVML_ERROR_NO_PERMISSION:
            continue
        rack.driver.fail(call, code, gpu)
        rack.turn()
        found = shape(rack.snapshot)
        assert found.keys() <= healthy.keys()
        for key, what in found.items():
            if key in spared and gpu != EVERY_GPU:
                assert what == healthy[key]
            assert within(what, healthy[key])
        zeros = {which for which, value in values(rack.snapshot).items() if value == 0 and figures.get(which, 0) != 0}
        assert zeros == set()
        rack.turn(2)
        rack.driver.heal(call, gpu)
        for _ in range(EXPECTED_AT_THE_END_OF_MOST):
            if shape(rack.turn().snapshot) == healthy:
                break
        assert shape(rack.snapshot) == healthy, pynvml.NVMLError(code)


@pytest.mark.parametrize(("node", "call"), [case for case in CASES if case[1] != "nvmlDeviceGetCount"])
def test_a_call_that_fails_from_the_beginning_takes_only_its_gpu_s_part(make_rack, node, call):
    setting = dict(NODES[node])
    populate = setting.pop("before")
    gpu = EVERY_GPU if call in NODE_WIDE else 1

    def begin(driver):
        populate(driver)
        driver.fail(call, pynvml.NVML_ERROR_UNKNOWN, gpu)

    rack = make_rack(gpus=2, collect=ALL, before=begin, **setting).turn(3)
    assert rack.gpus[0].utilization is not None or node == "mig"
    assert rack.gpus[0].power is not None or call == "nvmlDeviceGetFieldValues"
    assert rack.gpus[0].processes or node == "mig"


@pytest.mark.parametrize("call", sorted(AT_THE_BEGINNING - {"nvmlInit"}))
def test_a_version_that_cannot_be_read_keeps_nothing_else_from_being_read(make_rack, call):
    rack = make_rack(before=lambda driver: driver.fail(call, pynvml.NVML_ERROR_UNKNOWN)).turn(2)
    assert rack.gpu.utilization == 0


@pytest.mark.parametrize(("node", "call"), [case for case in CASES if case[1] not in NODE_WIDE])
def test_a_gpu_is_lost_whichever_call_says_so(make_rack, node, call):
    rack = make_rack(gpus=2, collect=ALL, **NODES[node])
    rack.driver.fail(call, pynvml.NVML_ERROR_GPU_IS_LOST, gpu=1)
    rack.turn(2)
    assert {reading.index for reading in rack.snapshot.gpus} == {0}
    assert rack.snapshot.visible == 1
