"""GPM: means over the time since the previous turn, as ratios and bytes per second; the odd is dropped or clamped."""

from __future__ import annotations

from itertools import pairwise

import pynvml
import pytest

from dutycycle_exporter.contract import ACTIVITY, CYCLES
from dutycycle_exporter.nvml import gpm
from tests.fakes.nvml import A100, B200, FULL, H200, Level, Load

ACTIVE = {
    "sm": 0.5,
    "occupancy": 0.4,
    "tensor": 0.3,
    "dfma": 0.02,
    "hmma": 0.2,
    "imma": 0.1,
    "dram": 0.6,
    "fp64": 0.01,
    "fp32": 0.25,
    "fp16": 0.15,
}
NAMED = {"occupancy": "sm_occupancy", "dfma": "tensor_dfma", "hmma": "tensor_hmma", "imma": "tensor_imma"}
MIB = 2**20


def units(rack):
    return dict(rack.gpu.activity.units)


@pytest.fixture
def metrics_of(monkeypatch):
    """Has nvmlGpmMetricsGet's answers changed by a function of the request."""

    def change(how):
        real = pynvml.nvmlGpmMetricsGet

        def changed(request):
            real(request)
            how(request)
            return request

        changed.__name__ = "nvmlGpmMetricsGet"
        monkeypatch.setattr(pynvml, "nvmlGpmMetricsGet", changed)

    return change


def metric(request, number):
    return next(metric for metric in request.metrics[: request.numMetrics] if metric.metricId == number)


def test_each_unit_is_the_mean_of_what_the_job_did_since_the_previous_turn(make_rack):
    rack = make_rack()
    rack.turn()
    assert rack.gpu.activity is None, "of the time before the first sample nothing is known"
    job = rack.driver.run("train", {0: Load(Level(0.8), activity=ACTIVE)})
    rack.turn()
    expected = {NAMED.get(unit, unit): pytest.approx(0.8 * share) for unit, share in ACTIVE.items()}
    assert units(rack) == {"graphics": pytest.approx(0.8), **expected}
    assert tuple(units(rack)) == ACTIVITY
    job.change(Level(0.4))
    rack.turn()
    assert units(rack)["sm"] == pytest.approx(0.2)


def test_it_covers_the_time_between_the_two_samples(make_rack):
    rack = make_rack().turn(2)
    activity = rack.gpu.activity
    assert (activity.start, activity.end) == (
        pytest.approx(rack.clock.now - 5, abs=0.5),
        pytest.approx(rack.clock.now, abs=0.5),
    )
    assert rack.turn().gpu.activity.start == activity.end


def test_traffic_is_in_bytes_per_second_by_direction(make_rack):
    rack = make_rack()
    rack.driver.traffic(0, pcie_rx=4 * MIB, pcie_tx=MIB, nvlink_rx=1024 * MIB, nvlink_tx=512 * MIB)
    activity = rack.turn(2).gpu.activity
    assert dict(activity.pcie) == {"rx": pytest.approx(4 * MIB), "tx": pytest.approx(MIB)}
    assert dict(activity.nvlink) == {"rx": pytest.approx(1024 * MIB), "tx": pytest.approx(512 * MIB)}


@pytest.mark.parametrize("model", [H200, B200])
def test_gpus_from_hopper_on_have_it(make_rack, model):
    assert make_rack(model=model).turn(2).gpu.activity is not None


@pytest.mark.parametrize(("model", "version"), [(A100, "580.95.05"), (H200, "515.105.01")])
def test_where_the_gpu_or_the_driver_lacks_it_it_is_asked_for_once_and_is_no_failure(make_rack, model, version):
    rack = make_rack(model=model, driver_version=version).turn(4)
    assert rack.gpu.activity is None
    assert rack.driver.state.calls("nvmlGpmQueryDeviceSupport") == 1
    assert rack.driver.state.calls("nvmlGpmSampleGet") == 0
    assert rack.snapshot.failures == {}


@pytest.mark.parametrize(("version", "known"), [("580.95.05", False), ("595.10", True)])
def test_raw_cycles_from_the_driver_on_that_has_them(make_rack, version, known):
    rack = make_rack(driver_version=version)
    rack.driver.run("train", {0: Load(FULL, activity={"sm": 0.5, "tensor": 0.25})})
    before = dict(rack.turn(2).gpu.cycles)
    after = dict(rack.turn(2).gpu.cycles)
    if not known:
        assert before == after == {}
        return
    assert tuple(after) == CYCLES
    elapsed = after["sm_elapsed"] - before["sm_elapsed"]
    assert (after["sm_active"] - before["sm_active"]) / elapsed == pytest.approx(0.5)
    assert (after["tensor_active"] - before["tensor_active"]) / elapsed == pytest.approx(0.25)


def test_what_is_over_1_is_taken_as_1_and_counted_once_a_turn_by_unit(make_rack):
    rack = make_rack()
    rack.driver.run("train", {0: Load(FULL, activity={"sm": 0.9, "dram": 0.1})})
    rack.driver.gpm_excess(0, 1.5)
    rack.turn(2)
    assert (units(rack)["graphics"], units(rack)["sm"]) == (1.0, 1.0)
    assert units(rack)["dram"] == pytest.approx(0.15)
    assert rack.snapshot.clamped == {"graphics": 1, "sm": 1}
    rack.driver.gpm_excess(0, 1.0)
    assert rack.turn().snapshot.clamped == {}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.001])
def test_a_value_that_cannot_be_is_dropped_and_counted(make_rack, metrics_of, value):
    metrics_of(lambda request: setattr(metric(request, pynvml.NVML_GPM_METRIC_SM_UTIL), "value", value))
    rack = make_rack().turn(2)
    assert "sm" not in units(rack)
    assert "graphics" in units(rack)
    assert rack.snapshot.dropped == {"gpm": 1}


@pytest.mark.parametrize(
    ("code", "failures"),
    [
        (pynvml.NVML_ERROR_NOT_SUPPORTED, {}),
        (pynvml.NVML_ERROR_UNKNOWN, {("nvmlGpmMetricsGet", "unknown"): 1}),
    ],
)
def test_one_metric_that_is_missing_does_not_spoil_the_others(make_rack, metrics_of, code, failures):
    metrics_of(lambda request: setattr(metric(request, pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL), "nvmlReturn", code))
    rack = make_rack().turn(2)
    assert set(units(rack)) == set(ACTIVITY) - {"dram"}
    assert rack.snapshot.failures == failures


@pytest.mark.parametrize("call", ["nvmlGpmSampleGet", "nvmlGpmMetricsGet"])
def test_permission_that_is_taken_away_mid_run_is_asked_for_again_ever_more_rarely(make_rack, call):
    rack = make_rack().turn(2)
    rack.driver.fail(call, pynvml.NVML_ERROR_NO_PERMISSION)
    rack.turn()
    assert rack.gpu.activity is None
    assert rack.snapshot.failures == {(call, "no_permission"): 1}
    before = rack.driver.state.calls(call)
    rack.turn(60)
    assert 1 <= rack.driver.state.calls(call) - before <= 6
    rack.driver.heal(call)
    rack.turn(60 + 2)
    assert rack.gpu.activity is not None
    assert rack.gpu.activity.end - rack.gpu.activity.start == pytest.approx(5, abs=0.5)


@pytest.mark.parametrize("times", [1, 2])
def test_samples_that_cannot_be_compared_for_once_are_not_lost(make_rack, times):
    rack = make_rack()
    rack.driver.run("train", {0: Load(FULL, activity=ACTIVE)})
    before = rack.turn(3).gpu.activity
    rack.driver.fail("nvmlGpmMetricsGet", pynvml.NVML_ERROR_INVALID_ARGUMENT, times=times)
    for _ in range(times):
        assert rack.turn().gpu.activity is None
    after = rack.turn().gpu.activity
    assert after.start == before.end, "it covers the turns that failed"
    assert dict(after.units)["sm"] == pytest.approx(0.5)


def test_it_is_asked_for_again_sooner_where_time_is_scaled(make_rack):
    rack = make_rack(time_scale=10, interval=0.5).turn(2)
    rack.driver.fail("nvmlGpmSampleGet", pynvml.NVML_ERROR_NO_PERMISSION, times=1)
    assert rack.turn().gpu.activity is None
    assert rack.turn(4).gpu.activity is not None, "10 s are one, and then it takes two samples"


def test_a_failure_of_one_gpu_leaves_the_others_as_they_are(make_rack):
    rack = make_rack(gpus=3).turn(2)
    rack.driver.fail("nvmlGpmSampleGet", pynvml.NVML_ERROR_UNKNOWN, gpu=1)
    assert [gpu.activity is not None for gpu in rack.turn().gpus] == [True, False, True]


def test_turns_that_follow_each_other_too_fast_share_one_activity(make_rack):
    """The driver renews its counters each 100 ms."""
    rack = make_rack(interval=0.04)
    rack.driver.run("train", {0: Load(Level(0.5))})
    found = [rack.turn().gpu.activity for _ in range(30)]
    activities = [activity for activity in found if activity is not None]
    assert 8 <= len(activities) <= 10
    assert all(activity.end - activity.start > 0.1 for activity in activities)
    assert all(a.end == b.start for a, b in pairwise(activities))


def test_two_samples_of_the_same_counters_are_not_taken_for_an_idle_gpu(make_rack, monkeypatch):
    """The driver answers them with success and zeros."""
    monkeypatch.setattr(gpm, "_SHORTEST", 0.0)
    rack = make_rack(interval=0.04)
    rack.driver.run("train", {0: Load(Level(0.5), activity=ACTIVE)})
    turns = [(rack.turn().gpu.activity, dict(rack.snapshot.failures)) for _ in range(30)]
    activities = [activity for activity, _ in turns if activity is not None]
    assert len(activities) >= 8
    assert [dict(activity.units)["sm"] for activity in activities] == [pytest.approx(0.25, abs=0.01)] * len(activities)
    assert all(a.end == b.start for a, b in pairwise(activities)), "no time is lost"
    assert {("nvmlGpmMetricsGet", "same_counters"): 1} in [failures for _, failures in turns]


@pytest.mark.parametrize("step", [-3600, 3600])
def test_a_clock_that_is_set_costs_no_activity(make_rack, step):
    rack = make_rack()
    activities = [rack.turn().gpu.activity for _ in range(3)][1:]
    rack.step = step
    activities += [rack.turn().gpu.activity for _ in range(3)]
    assert all(a.end == b.start for a, b in pairwise(activities))


def test_two_samples_are_taken_out_for_each_gpu_and_given_back(make_rack, monkeypatch):
    freed = []
    real = pynvml.nvmlGpmSampleFree

    def free(sample):
        freed.append(sample)
        return real(sample)

    free.__name__ = "nvmlGpmSampleFree"
    monkeypatch.setattr(pynvml, "nvmlGpmSampleFree", free)
    rack = make_rack(gpus=2).turn(10)
    assert rack.driver.state.calls("nvmlGpmSampleAlloc") == 4
    rack.driver.lose(1)
    rack.turn()
    assert len(freed) == 2
    rack.driver.restore(1)
    rack.turn()
    rack.driver.vanish(0)
    rack.turn()
    assert len(freed) == 4
    rack.reader.close()
    assert len(freed) == 6
