"""What the double's sample buffers, gauges and counters say of a load that is known exactly.

Time stands still here but for `advance`: every figure has one right value.
"""

import math
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fakes.clock import FakeClock
from tests.fakes.nvml import (
    A100,
    FULL,
    H100,
    RTX_3080_TI,
    SAMPLE_PERIOD,
    Driver,
    GpuProcess,
    Level,
    Load,
    Steps,
    Then,
)

from .test_patterns import patterns

ALL_LINKS = 2**32 - 1


def test_a_sample_is_the_duty_of_its_own_period(machine):
    """2 s steps at half duty, sampled at 6 Hz: six full samples, six empty ones."""
    m = machine()
    m.driver.add_gpu()
    m.driver.run("train", {0: Load(Steps(2, 0.5))})
    m.advance(4)
    assert m.values() == ([100] * 6 + [0] * 6) * 2


def test_short_kernels_give_unimodal_samples(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.run("small", {0: Load(Level(0.12))})
    m.advance(10)
    assert set(m.values()) == {12}


def test_timestamps_are_microseconds_of_the_wall_clock_one_period_apart(machine):
    m = machine()
    m.driver.add_gpu()
    start = m.clock.now
    m.advance(2)
    times = [time for time, _ in m.samples()]
    assert times == [round((start + n * SAMPLE_PERIOD) * 1e6) for n in range(1, 13)]


def test_time_scale_shortens_patterns_and_sample_periods_alike(machine):
    m = machine(time_scale=30)
    m.driver.add_gpu()
    m.driver.run("train", {0: Load(Steps(2, 0.5))})
    m.advance(4 / 30)
    assert m.values() == ([100] * 6 + [0] * 6) * 2
    assert m.driver.truth.busy_seconds(0, m.clock.now - 4 / 30, m.clock.now) == pytest.approx(2 / 30, abs=1e-5)


def test_the_buffer_keeps_the_newest_samples(machine):
    m = machine(capacity=20)
    m.driver.add_gpu()
    m.driver.run("train", {0: Load(Then(Level(0.2), 100, Level(0.7)))})
    m.advance(100)
    m.advance(2)
    assert m.values() == [20] * 8 + [70] * 12


@pytest.mark.parametrize("steps", [[7.05], [0.1] * 70 + [0.05]])
def test_samples_missed_in_a_stall_are_made_up_with_their_right_times(machine, steps):
    """A driver that did not run for 7 s writes then what it would have written meanwhile."""
    m = machine()
    m.driver.add_gpu()
    pattern = Steps(1.3, 0.4)
    m.driver.run("train", {0: Load(pattern)})
    start = m.clock.now
    for seconds in steps:
        m.advance(seconds)
    edges = [n * SAMPLE_PERIOD for n in range(43)]
    duties = [(pattern.busy(b) - pattern.busy(a)) / SAMPLE_PERIOD for a, b in pairwise(edges)]
    assert m.values() == [pytest.approx(100 * duty, abs=0.51) for duty in duties]
    assert [time for time, _ in m.samples()] == [round((start + edge) * 1e6) for edge in edges[1:]]


def test_only_samples_newer_than_the_last_seen_are_returned(machine):
    m = machine()
    m.driver.add_gpu()
    m.advance(2)
    everything = m.samples()
    assert m.samples(last_seen=everything[4][0]) == everything[5:]


def test_nothing_newer_is_not_found(machine):
    m = machine()
    m.driver.add_gpu()
    m.advance(2)
    with pytest.raises(m.nvml.NVMLError_NotFound):
        m.samples(last_seen=m.samples()[-1][0])


def test_an_idle_gpu_may_run_out_of_samples_while_its_rates_go_on(machine):
    m = machine()
    m.driver.add_gpu(samples_when_idle=False)
    m.advance(5)
    with pytest.raises(m.nvml.NVMLError_NotFound):
        m.samples()
    assert m.nvml.nvmlDeviceGetUtilizationRates(m.handle()).gpu == 0
    job = m.driver.run("train", {0: Load(FULL)})
    m.advance(1)
    assert m.values()[-1] == 100
    last = m.samples()[-1][0]
    job.stop()
    m.advance(5)
    with pytest.raises(m.nvml.NVMLError_NotFound):
        m.samples(last_seen=last + 1_000_000)
    assert m.nvml.nvmlDeviceGetUtilizationRates(m.handle()).gpu == 0


def test_the_rates_are_the_newest_sample(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.run("train", {0: Load(Steps(1.7, 0.6), memory_activity=0.5)})
    for _ in range(40):
        m.advance(0.23)
        rates = m.nvml.nvmlDeviceGetUtilizationRates(m.handle())
        assert rates.gpu == m.values()[-1]
        assert rates.memory == m.samples(kind=m.nvml.NVML_MEMORY_UTILIZATION_SAMPLES)[-1][1]


def test_without_a_buffer_the_capacity_is_answered(machine):
    m = machine(capacity=120)
    m.driver.add_gpu()
    m.advance(1)
    nvml, handle = m.nvml, m.handle()
    count, value_type = nvml.c_uint(0), nvml.c_uint(0)
    get = nvml._nvmlGetFunctionPointer("nvmlDeviceGetSamples")
    assert get(handle, 1, nvml.c_ulonglong(0), nvml.byref(value_type), nvml.byref(count), None) == nvml.NVML_SUCCESS
    assert count.value == 120
    room = (nvml.c_nvmlSample_t * 4)()
    count.value = 4
    assert get(handle, 1, nvml.c_ulonglong(0), nvml.byref(value_type), nvml.byref(count), room) == nvml.NVML_SUCCESS
    assert [sample.timeStamp for sample in room] == [time for time, _ in m.samples()][:4]
    count.value = 0
    refused = get(handle, 1, nvml.c_ulonglong(0), nvml.byref(value_type), nvml.byref(count), room)
    assert refused == nvml.NVML_ERROR_INVALID_ARGUMENT


@pytest.mark.parametrize("kind", [3, 4, 5, 6])
def test_samples_that_the_gpu_does_not_take_are_not_supported(machine, kind):
    m = machine()
    m.driver.add_gpu()
    with pytest.raises(m.nvml.NVMLError_NotSupported):
        m.samples(kind=kind)


def test_there_is_no_utilization_of_a_partitioned_gpu(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.force(0, mig_current=1)
    m.advance(1)
    for ask in (
        m.samples,
        lambda: m.nvml.nvmlDeviceGetUtilizationRates(m.handle()),
        lambda: m.nvml.nvmlDeviceGetProcessUtilization(m.handle(), 0),
    ):
        with pytest.raises(m.nvml.NVMLError_NotSupported):
            ask()
    assert m.samples(kind=m.nvml.NVML_TOTAL_POWER_SAMPLES)
    m.driver.force(0, mig_current=None)
    assert m.samples()


def test_hostile_samples_can_be_injected(machine):
    m = machine()
    m.driver.add_gpu()
    m.advance(1)
    m.driver.inject_sample(0, 10**8, at=m.clock.now)
    m.driver.inject_sample(0, 50, at=m.clock.now - 60)
    assert m.samples()[-2:] == [(round(m.clock.now * 1e6), 10**8), (round((m.clock.now - 60) * 1e6), 50)]
    assert m.nvml.nvmlDeviceGetUtilizationRates(m.handle()).gpu == 50


def test_timestamps_can_go_backwards(machine):
    m = machine()
    m.driver.add_gpu()
    m.advance(1)
    m.driver.shift_clock(0, -3600)
    m.advance(1)
    times = [time for time, _ in m.samples()]
    assert times[6] == times[5] + round((SAMPLE_PERIOD - 3600) * 1e6)


@given(patterns)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_samples_add_up_to_the_truth(nvml_libraries, tmp_path, pattern):
    """Whatever the pattern: the sum of value x period differs by half a percent of each period at most."""
    clock = FakeClock()
    with Driver(tmp_path / "state", nvml_libraries, capacity=512, clock=clock) as driver:
        gpu = driver.add_gpu()
        driver.run("job", {0: Load(pattern)})
        for _ in range(30):
            clock.advance(1.7)
            driver.step()
        ring = gpu.device.gpu
        samples = ring.samples[: ring.written]
        start = 1_750_000_000.0
        end = samples[-1].timestamp_us / 1e6
        truth = driver.truth.busy_seconds(0, start, end)
    summed = math.fsum(sample.value / 100 * SAMPLE_PERIOD for sample in samples)
    assert summed == pytest.approx(truth, abs=len(samples) * SAMPLE_PERIOD * 0.005 + 1e-3)


def test_energy_is_the_integral_of_power(machine):
    """Idle power all the time, and the busy share of the way to the limit times the job's factor."""
    m = machine()
    m.driver.add_gpu(H100)
    m.driver.add_gpu(A100)
    m.driver.run("train", {0: Load(Steps(2, 0.5), power_factor=0.8), 1: Load(FULL, power_factor=0.05)})
    for _ in range(100):
        m.advance(0.3)
    joules = [m.nvml.nvmlDeviceGetTotalEnergyConsumption(m.handle(gpu)) / 1000 for gpu in (0, 1)]
    assert joules[0] == pytest.approx(30 * 70 + 15 * 0.8 * (700 - 70), rel=1e-4)
    assert joules[1] == pytest.approx(30 * (65 + 0.05 * (400 - 65)), rel=1e-4)
    assert m.driver.truth.energy_joules(1, m.clock.now - 30, m.clock.now) == pytest.approx(joules[1], rel=1e-4)
    hung = m.nvml.nvmlDeviceGetPowerUsage(m.handle(1)) / 1000
    assert hung == pytest.approx(81.75)


def test_field_values_are_one_batch_with_a_result_each(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.run("train", {0: Load(FULL)})
    m.driver.throttle(0, "sw_thermal", 0.25)
    m.driver.force(0, remapped_pending=1, pcie_replays=7)
    m.advance(2)
    fields = m.nvml.nvmlDeviceGetFieldValues(m.handle(), [83, 186, 190, 198, (139, ALL_LINKS), 144, 94, 269, 270, 32])
    by_id = {field.fieldId: field for field in fields}
    ok = [field.nvmlReturn for field in fields]
    assert ok == [0] * 9 + [m.nvml.NVML_ERROR_NOT_SUPPORTED]
    assert by_id[83].value.ullVal == m.nvml.nvmlDeviceGetTotalEnergyConsumption(m.handle())
    assert by_id[186].value.uiVal == m.nvml.nvmlDeviceGetPowerUsage(m.handle())
    assert by_id[190].value.uiVal == 700_000
    assert by_id[198].value.ullVal == pytest.approx(2 * 2e9, rel=1e-5)
    assert by_id[139].value.ullVal == pytest.approx(2 * 2e7, rel=1e-5)
    assert (by_id[144].value.uiVal, by_id[94].value.uiVal) == (1, 7)
    assert by_id[269].value.ullVal == pytest.approx(0.5e9, rel=1e-4)
    assert by_id[270].value.ullVal == 0
    assert by_id[83].timestamp == round(m.clock.now * 1e6)


def test_processes_come_and_go_with_their_jobs(machine):
    m = machine()
    m.driver.add_gpu()
    compute = m.nvml.nvmlDeviceGetComputeRunningProcesses
    assert compute(m.handle()) == []
    job = m.driver.run("train", {0: Load(FULL, [GpuProcess(100, 2**30), GpuProcess(101, 2**31)])})
    assert [(p.pid, p.usedGpuMemory) for p in compute(m.handle())] == [(100, 2**30), (101, 2**31)]
    memory = m.nvml.nvmlDeviceGetMemoryInfo(m.handle(), m.nvml.nvmlMemory_v2)
    assert memory.used == 3 * 2**30
    assert memory.total == memory.used + memory.free + memory.reserved
    assert m.nvml.nvmlDeviceGetMemoryInfo(m.handle()).used == memory.used + memory.reserved
    job.stop()
    assert compute(m.handle()) == []
    assert m.nvml.nvmlDeviceGetMemoryInfo(m.handle(), m.nvml.nvmlMemory_v2).used == 0


def test_memory_can_grow(machine):
    m = machine(time_scale=10)
    m.driver.add_gpu()
    m.driver.run("train", {0: Load(FULL, [GpuProcess(100, 1000)], memory_growth=100)})
    used = []
    for _ in range(4):
        m.advance(5)
        used.append(m.nvml.nvmlDeviceGetComputeRunningProcesses(m.handle())[0].usedGpuMemory)
    assert used == [500, 1000, 1000, 1000]


def test_process_utilization_lists_only_those_that_used_the_gpu(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.run("busy", {0: Load(Level(0.6), [GpuProcess(100)])})
    m.driver.run("idle", {0: Load(Level(0.0), [GpuProcess(200)])})
    m.advance(3)
    [use] = m.nvml.nvmlDeviceGetProcessUtilization(m.handle(), 0)
    assert (use.pid, use.smUtil, use.timeStamp) == (100, 60, m.samples()[-1][0])
    [info] = m.nvml.nvmlDeviceGetProcessesUtilizationInfo(m.handle(), 0)
    assert (info.pid, info.smUtil) == (100, 60)


def test_process_utilization_is_the_mean_since_the_last_look(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.run("steps", {0: Load(Then(Level(0.2), 5, Level(0.8)), [GpuProcess(100)])})
    m.advance(10)
    middle = m.samples()[29][0]
    assert m.nvml.nvmlDeviceGetProcessUtilization(m.handle(), 0)[0].smUtil == 50
    assert m.nvml.nvmlDeviceGetProcessUtilization(m.handle(), middle)[0].smUtil == 80
    with pytest.raises(m.nvml.NVMLError_NotFound):
        m.nvml.nvmlDeviceGetProcessUtilization(m.handle(), m.samples()[-1][0])


def test_processes_of_jobs_that_share_a_gpu_add_up_to_it(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.run("a", {0: Load(FULL, [GpuProcess(100)])})
    m.driver.run("b", {0: Load(FULL, [GpuProcess(200), GpuProcess(201)])})
    m.advance(5)
    uses = m.nvml.nvmlDeviceGetProcessUtilization(m.handle(), 0)
    assert {use.pid: use.smUtil for use in uses} == {100: 50, 200: 25, 201: 25}
    assert set(m.values()) == {100}


def test_a_process_keeps_its_past_when_others_start(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.run("old", {0: Load(Level(0.4), [GpuProcess(300)])})
    m.advance(5)
    m.driver.run("new", {0: Load(Level(0.1), [GpuProcess(100)])})
    m.advance(5)
    uses = {use.pid: use.smUtil for use in m.nvml.nvmlDeviceGetProcessUtilization(m.handle(), 0)}
    assert uses == {300: 40, 100: 5}


def test_a_running_job_can_turn_healthy(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.add_gpu()
    job = m.driver.run("train", {0: Load(Level(0.1)), 1: Load(Level(0.1))})
    m.advance(5)
    job.change(Level(0.9), gpu=1)
    m.advance(5)
    assert (m.values(0)[-1], m.values(1)[-1]) == (10, 90)
    assert m.driver.truth.busy_seconds(1, m.clock.now - 10, m.clock.now, "train") == pytest.approx(5)


def test_identity_tells_index_minor_and_bus_apart(machine):
    m = machine()
    first = m.driver.add_gpu(minor=5)
    second = m.driver.add_gpu(A100, uuid="GPU-of-my-own", minor=2)
    nvml = m.nvml
    handle = nvml.nvmlDeviceGetHandleByUUID("GPU-of-my-own")
    assert nvml.nvmlDeviceGetIndex(handle) == 1
    assert nvml.nvmlDeviceGetMinorNumber(handle) == 2
    assert nvml.nvmlDeviceGetName(handle) == "NVIDIA A100-SXM4-80GB"
    assert nvml.nvmlDeviceGetArchitecture(handle) == nvml.NVML_DEVICE_ARCH_AMPERE
    assert nvml.nvmlDeviceGetCudaComputeCapability(handle) == (8, 0)
    assert nvml.nvmlDeviceGetPciInfo(handle).busId == "0000" + second.bus_id.upper()
    by_bus = nvml.nvmlDeviceGetHandleByPciBusId(first.bus_id)
    assert nvml.nvmlDeviceGetUUID(by_bus) == first.uuid
    assert nvml.nvmlDeviceGetMinorNumber(by_bus) == 5
    with pytest.raises(nvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetHandleByUUID("GPU-of-nobody")
    with pytest.raises(nvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetHandleByIndex(2)


def test_what_a_kind_of_gpu_lacks_is_not_supported(machine):
    m = machine()
    m.driver.add_gpu(H100)
    m.driver.add_gpu(RTX_3080_TI)
    data_centre, consumer = m.handle(0), m.handle(1)
    nvml = m.nvml
    assert nvml.nvmlDeviceGetFanSpeed(consumer) == 30
    assert nvml.nvmlDeviceGetMigMode(data_centre) == [0, 0]
    assert nvml.nvmlDeviceGetRemappedRows(data_centre) == (0, 0, 0, 0)
    for ask, handle in (
        (nvml.nvmlDeviceGetFanSpeed, data_centre),
        (nvml.nvmlDeviceGetMigMode, consumer),
        (nvml.nvmlDeviceGetSerial, consumer),
        (nvml.nvmlDeviceGetRemappedRows, consumer),
        (lambda handle: nvml.nvmlDeviceGetTotalEccErrors(handle, 0, 0), consumer),
    ):
        with pytest.raises(nvml.NVMLError_NotSupported):
            ask(handle)
    with pytest.raises(nvml.NVMLError_FunctionNotFound):
        nvml.nvmlDeviceGetTopologyCommonAncestor(data_centre, consumer)


def test_errors_and_violations_are_counted(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.ecc_errors(0, corrected=5, uncorrected=1)
    m.driver.throttle(0, "thermal", 0.5)
    m.advance(10)
    nvml, handle = m.nvml, m.handle()
    volatile = nvml.NVML_VOLATILE_ECC
    assert nvml.nvmlDeviceGetTotalEccErrors(handle, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, volatile) == 5
    assert nvml.nvmlDeviceGetMemoryErrorCounter(handle, 1, volatile, nvml.NVML_MEMORY_LOCATION_DRAM) == 1
    assert nvml.nvmlDeviceGetMemoryErrorCounter(handle, 1, volatile, nvml.NVML_MEMORY_LOCATION_SRAM) == 0
    m.driver.sram_errors(0, corrected=2, sec_ded=1)
    assert nvml.nvmlDeviceGetMemoryErrorCounter(handle, 0, volatile, nvml.NVML_MEMORY_LOCATION_DRAM) == 3
    assert nvml.nvmlDeviceGetMemoryErrorCounter(handle, 0, volatile, nvml.NVML_MEMORY_LOCATION_SRAM) == 2
    assert nvml.nvmlDeviceGetMemoryErrorCounter(handle, 1, volatile, nvml.NVML_MEMORY_LOCATION_SRAM) == 1
    violation = nvml.nvmlDeviceGetViolationStatus(handle, nvml.NVML_PERF_POLICY_THERMAL)
    assert violation.violationTime == pytest.approx(5e9, rel=1e-4)
