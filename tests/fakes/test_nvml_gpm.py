"""GPM: averages between any two samples are the integrals of what the jobs did."""

import math
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.clock import FakeClock
from tests.fakes.nvml import A100, B200, FULL, H100, RTX_3080_TI, Driver, Level, Load, Steps

from .test_patterns import patterns

GRAPHICS, SM, OCCUPANCY, TENSOR, DRAM = 1, 2, 3, 5, 10
PCIE_TX, PCIE_RX, NVLINK_RX, NVLINK_TX = 20, 21, 60, 61
CYCLES, CYCLES_ACTIVE, MMA_ACTIVE = 248, 249, 250


def take(m, gpu=0, gpu_instance=None):
    sample = m.nvml.nvmlGpmSampleAlloc()
    if gpu_instance is None:
        return m.nvml.nvmlGpmSampleGet(m.handle(gpu), sample)
    return m.nvml.nvmlGpmMigSampleGet(m.handle(gpu), gpu_instance, sample)


def ask(m, first, second, *metrics):
    request = m.nvml.c_nvmlGpmMetricsGet_t(
        version=m.nvml.NVML_GPM_METRICS_GET_VERSION, numMetrics=len(metrics), sample1=first, sample2=second
    )
    for i, metric in enumerate(metrics):
        request.metrics[i].metricId = metric
    return list(m.nvml.nvmlGpmMetricsGet(request).metrics[: len(metrics)])


def values(m, first, second, *metrics):
    """Values of metrics; None for what is not supported."""
    answers = ask(m, first, second, *metrics)
    assert {answer.nvmlReturn for answer in answers} <= {0, m.nvml.NVML_ERROR_NOT_SUPPORTED}
    return [answer.value if answer.nvmlReturn == 0 else None for answer in answers]


def test_the_numbers_are_those_of_pynvml(pynvml_double):
    nvml = pynvml_double
    assert (nvml.NVML_GPM_METRIC_GRAPHICS_UTIL, nvml.NVML_GPM_METRIC_SM_UTIL) == (GRAPHICS, SM)
    assert (nvml.NVML_GPM_METRIC_SM_OCCUPANCY, nvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL) == (OCCUPANCY, TENSOR)
    assert (nvml.NVML_GPM_METRIC_DRAM_BW_UTIL, nvml.NVML_GPM_METRIC_FP16_UTIL) == (DRAM, 13)
    assert (nvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, nvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC) == (PCIE_TX, PCIE_RX)
    assert nvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC == NVLINK_RX
    assert nvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC == NVLINK_TX


def test_a_metric_is_the_duty_cycle_times_the_job_s_activity(machine):
    m = machine()
    m.driver.add_gpu()
    activity = {"sm": 0.8, "tensor": 0.3, "dram": 0.5, "occupancy": 0.4, "fp16": 0.1}
    m.driver.run("train", {0: Load(Steps(2, 0.5), activity=activity)})
    first = take(m)
    m.advance(20)
    second = take(m)
    asked = values(m, first, second, GRAPHICS, SM, TENSOR, DRAM, OCCUPANCY, 13, 11)
    assert asked == [pytest.approx(value, abs=0.01) for value in (50, 40, 15, 25, 20, 5, 0)]
    [answer] = ask(m, first, second, SM)
    assert (answer.metricInfo.shortName, answer.metricInfo.unit) == (b"SM Util", b"%")


def test_the_average_is_that_of_the_interval_between_the_samples(machine):
    """Any two samples, not only neighbours; a change of load in between counts from when it came."""
    m = machine()
    m.driver.add_gpu()
    job = m.driver.run("train", {0: Load(Level(0.2), activity={"sm": 1.0})})
    first = take(m)
    m.advance(10)
    middle = take(m)
    job.change_load(0, Load(FULL, activity={"sm": 0.5}))
    m.advance(30)
    last = take(m)
    assert values(m, first, middle, SM) == [pytest.approx(20)]
    assert values(m, middle, last, SM) == [pytest.approx(50)]
    assert values(m, first, last, SM) == [pytest.approx((2 + 15) / 40 * 100)]


def test_traffic_is_in_mib_per_second(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.traffic(0, pcie_tx=2.0**20, pcie_rx=2.0**21, nvlink_rx=2.0**30, nvlink_tx=2.0**29)
    first = take(m)
    m.advance(7)
    rates = values(m, first, take(m), PCIE_TX, PCIE_RX, NVLINK_RX, NVLINK_TX)
    assert rates == [pytest.approx(rate) for rate in (1, 2, 1024, 512)]


@given(patterns, st.lists(st.floats(0.15, 5), min_size=2, max_size=6))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_averages_are_exact_whatever_the_pattern(nvml_libraries, tmp_path, pattern, steps):
    clock = FakeClock()
    with Driver(tmp_path / "state", nvml_libraries, clock=clock) as driver:
        gpu = driver.add_gpu()
        driver.run("job", {0: Load(pattern, activity={"sm": 0.6})})
        start = clock.now
        for step in steps:
            clock.advance(step)
            driver.step()
        counted = gpu.device.gpm.active_ns[SM] / 1e9
        truth = driver.truth.busy_seconds(0, start, clock.now)
    assert counted == pytest.approx(0.6 * truth, abs=1e-4)
    assert gpu.device.gpm.elapsed_ns / 1e9 == pytest.approx(math.fsum(steps), abs=1e-4)


def test_samples_of_the_same_counters_make_a_success_without_a_meaning(machine):
    m = machine(time_scale=10)
    m.driver.add_gpu()
    m.driver.run("train", {0: Load(FULL, activity={"sm": 0.5, "dram": 0.5})})
    m.advance(1)
    first = take(m)
    m.advance(0.009)
    early = take(m)
    m.advance(0.002)
    late = take(m)
    assert values(m, first, late, SM, DRAM) == [pytest.approx(50), pytest.approx(50)]
    for pair in ((first, first), (first, early)):
        active, bandwidth = values(m, *pair, SM, DRAM)
        assert active == 0
        assert math.isnan(bandwidth)
    never = m.nvml.nvmlGpmSampleAlloc()
    for pair in ((late, first), (never, late), (first, never), (None, late)):
        with pytest.raises(m.nvml.NVMLError_InvalidArgument):
            values(m, *pair, SM)


def test_samples_of_two_gpus_make_no_average(machine):
    m = machine()
    for _ in range(2):
        m.driver.add_gpu()
    first = take(m, 0)
    m.advance(1)
    with pytest.raises(m.nvml.NVMLError_InvalidArgument):
        values(m, first, take(m, 1), SM)


def test_a_request_of_another_version_or_of_nothing_is_refused(machine):
    m = machine()
    m.driver.add_gpu()
    first = take(m)
    m.advance(1)
    request = m.nvml.c_nvmlGpmMetricsGet_t(version=7, numMetrics=1, sample1=first, sample2=take(m))
    with pytest.raises(m.nvml.NVMLError_ArgumentVersionMismatch):
        m.nvml.nvmlGpmMetricsGet(request)
    request.version = 1
    for count in (0, 100_000):
        request.numMetrics = count
        with pytest.raises(m.nvml.NVMLError_InvalidArgument):
            m.nvml.nvmlGpmMetricsGet(request)


def test_one_metric_that_is_missing_does_not_spoil_the_others(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.run("train", {0: Load(FULL)})
    first = take(m)
    m.advance(1)
    assert values(m, first, take(m), 30, GRAPHICS, 9999) == [None, pytest.approx(100), None]


@pytest.mark.parametrize(("model", "supported"), [(H100, 1), (B200, 1), (A100, 0), (RTX_3080_TI, 0)])
def test_gpm_begins_with_hopper(machine, model, supported):
    m = machine()
    m.driver.add_gpu(model)
    assert m.nvml.nvmlGpmQueryDeviceSupport(m.handle()).isSupportedDevice == supported
    if not supported:
        with pytest.raises(m.nvml.NVMLError_NotSupported):
            take(m)


def test_drivers_before_520_know_nothing_of_gpm(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.set_driver("515.105.01", cuda=11070)
    with pytest.raises(m.nvml.NVMLError_FunctionNotFound):
        m.nvml.nvmlGpmQueryDeviceSupport(m.handle())
    with pytest.raises(m.nvml.NVMLError_FunctionNotFound):
        take(m)


@pytest.mark.parametrize(("version", "known"), [("580.95.05", False), ("595.10", True)])
def test_raw_cycles_come_with_driver_595(machine, version, known):
    """They count from the beginning: the quotient of two differences is the exact average."""
    m = machine()
    m.driver.set_driver(version, cuda=13000)
    m.driver.add_gpu()
    m.driver.run("train", {0: Load(FULL, activity={"sm": 0.5, "tensor": 0.25})})
    samples = [take(m)]
    for _ in range(2):
        m.advance(10)
        samples.append(take(m))
    raw = [values(m, *pair, CYCLES, CYCLES_ACTIVE, MMA_ACTIVE) for pair in pairwise(samples)]
    if not known:
        assert raw == [[None] * 3] * 2
        return
    elapsed, active, tensor = (after - before for before, after in zip(*raw, strict=True))
    assert elapsed == pytest.approx(10 * 1980e6)
    assert (active / elapsed, tensor / elapsed) == (pytest.approx(0.5), pytest.approx(0.25))


def test_counters_can_count_too_much(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.run("train", {0: Load(FULL, activity={"sm": 1.0})})
    m.driver.gpm_excess(0, 1.5)
    first = take(m)
    m.advance(1)
    assert values(m, first, take(m), SM) == [pytest.approx(150)]


def test_permission_can_go_mid_run(machine):
    m = machine()
    for _ in range(2):
        m.driver.add_gpu()
    take(m)
    m.driver.fail("nvmlGpmSampleGet", m.nvml.NVML_ERROR_NO_PERMISSION, gpu=0)
    with pytest.raises(m.nvml.NVMLError_NoPermission):
        take(m)
    first = take(m, 1)
    m.advance(1)
    second = take(m, 1)
    m.driver.fail("nvmlGpmMetricsGet", m.nvml.NVML_ERROR_NO_PERMISSION, gpu=1)
    with pytest.raises(m.nvml.NVMLError_NoPermission):
        values(m, first, second, SM)


def test_samples_can_be_freed(machine):
    m = machine()
    m.driver.add_gpu()
    for _ in range(100):
        m.nvml.nvmlGpmSampleFree(take(m))
    with pytest.raises(m.nvml.NVMLError_InvalidArgument):
        m.nvml.nvmlGpmSampleFree(None)


def test_an_activity_that_gpm_does_not_measure_is_refused():
    with pytest.raises(ValueError, match="happiness"):
        Load(FULL, activity={"happiness": 1.0})


def test_an_instance_has_counters_of_its_own(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.set_mig(0, ["3g.40gb", "1g.10gb"])
    m.driver.run("train", {(0, 0): Load(Level(0.8), activity={"sm": 0.5}), (0, 1): Load(FULL, activity={"sm": 1.0})})
    ids = [m.nvml.nvmlDeviceGetGpuInstanceId(m.instance(place)) for place in (0, 1)]
    before = [take(m, gpu_instance=id_) for id_ in ids]
    whole = take(m)
    m.advance(10)
    after = [take(m, gpu_instance=id_) for id_ in ids]
    assert values(m, before[0], after[0], SM, PCIE_TX) == [pytest.approx(40), None]
    assert values(m, before[1], after[1], SM) == [pytest.approx(100)]
    assert values(m, whole, take(m), SM) == [pytest.approx((60 * 40 + 16 * 100) / 132)]
    with pytest.raises(m.nvml.NVMLError_InvalidArgument):
        values(m, before[0], after[1], SM)
    m.driver.gpm_excess(0, 1.2, instance=1)
    m.advance(1)
    assert values(m, after[1], take(m, gpu_instance=ids[1]), SM) == [pytest.approx(120)]


def test_only_a_partitioned_gpu_has_samples_of_instances(machine):
    m = machine()
    m.driver.add_gpu()
    with pytest.raises(m.nvml.NVMLError_NotSupported):
        take(m, gpu_instance=0)
    m.driver.set_mig(0, ["7g.80gb"])
    with pytest.raises(m.nvml.NVMLError_NotFound):
        take(m, gpu_instance=9)


def test_samples_of_two_lives_of_an_instance_make_no_average(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.set_mig(0, ["1g.10gb"])
    first = take(m, gpu_instance=7)
    m.driver.set_mig(0, [])
    m.driver.set_mig(0, ["1g.10gb"])
    m.advance(1)
    with pytest.raises(m.nvml.NVMLError_InvalidArgument):
        values(m, first, take(m, gpu_instance=7), SM)
