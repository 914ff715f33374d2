"""A GPU that stays missing is looked for by a fresh child: after a minute, and not all the time."""

from __future__ import annotations

import pynvml
import pytest

from dutycycle_exporter.errors import NvmlUnavailableError
from dutycycle_exporter.nvml.lost import MissingGpus
from tests.fakes.nvml import Level


def gives_up(watch, numbers, start=1000.0, step=5.0):
    """Seconds until the watch ends the child; None where it does not. `numbers` gives (count, visible) by turn."""
    for turn, (count, visible) in enumerate(numbers):
        try:
            watch.watch(start + turn * step, count, visible)
        except NvmlUnavailableError:
            return turn * step
    return None


@pytest.mark.parametrize(
    ("numbers", "after"),
    [
        pytest.param([(8, 8)] * 500, None, id="all well"),
        pytest.param([(8, 8)] * 2 + [(8, 7)] * 500, 70, id="lost"),
        pytest.param([(8, 8)] * 2 + [(7, 7)] * 500, 70, id="gone from the count"),
        pytest.param(([(8, 8)] + [(8, 7)] * 10) * 100, None, id="comes back each time"),
        pytest.param([(8, 7)] * 500, 300, id="never seen by this child"),
        pytest.param([(7, 7)] * 500, None, id="not there at all"),
        pytest.param([(None, None)] * 500, None, id="not told"),
        pytest.param([(8, 8)] + [(None, None), (8, 7)] * 100, 70, id="told now and then"),
    ],
)
def test_when_a_fresh_child_is_worth_it(numbers, after):
    assert gives_up(MissingGpus(time_scale=1), numbers) == after


def test_times_are_divided_by_the_time_scale():
    assert gives_up(MissingGpus(time_scale=10), [(2, 2), *[(2, 1)] * 100], step=0.5) == 6.5
    assert gives_up(MissingGpus(time_scale=10), [(2, 1)] * 100, step=0.5) == 30


def test_the_reader_ends_when_a_gpu_stays_lost_and_says_why(make_rack):
    rack = make_rack(gpus=2).turn(2)
    rack.driver.lose(1)
    rack.turn(12)
    with pytest.raises(NvmlUnavailableError, match="1 of 2 GPUs have not answered for 60 s") as caught:
        rack.turn()
    assert caught.value.reason == "gpu_lost"


def test_a_gpu_that_comes_back_in_time_ends_nothing(make_rack):
    rack = make_rack(gpus=2).turn(2)
    for _ in range(3):
        rack.driver.lose(1)
        rack.turn(8)
        rack.driver.restore(1)
        rack.turn(8)
    assert len(rack.gpus) == 2


def test_who_a_gpu_is_is_asked_again_only_when_there_may_be_news(make_rack):
    rack = make_rack(gpus=4).turn(2)
    before = rack.driver.state.calls("nvmlDeviceGetUUID")
    rack.turn(8)
    assert rack.driver.state.calls("nvmlDeviceGetUUID") == before
    rack.driver.fail("nvmlDeviceGetTemperature", pynvml.NVML_ERROR_UNKNOWN, gpu=2, times=1)
    rack.turn(2)
    assert rack.driver.state.calls("nvmlDeviceGetUUID") == before + 4
    rack.turn(12)
    assert rack.driver.state.calls("nvmlDeviceGetUUID") == before + 8


def test_indexes_that_move_are_noticed_at_once_also_where_as_many_come_as_go(make_rack):
    rack = make_rack(gpus=3)
    rack.driver.vanish(2)
    rack.turn(2)
    uuids = [gpu.uuid for gpu in rack.driver.gpus]
    rack.driver.vanish(0)
    rack.driver.restore(2)
    rack.turn(2)
    assert [(gpu.uuid, gpu.index) for gpu in rack.gpus] == [(uuids[1], 0), (uuids[2], 1)]


def test_a_gpu_that_does_not_say_who_it_is_is_not_a_lost_one(make_rig):
    rig = make_rig(gpus=2).turn()
    rig.node.driver.fail("nvmlDeviceGetUUID", pynvml.NVML_ERROR_TIMEOUT, gpu=1)
    rig.node.driver.fail("nvmlDeviceGetTemperature", pynvml.NVML_ERROR_TIMEOUT, times=1)
    assert rig.turn(2).value("gpu_visible") == 2
    assert len(rig.values("gpu_info")) == 1
    rig.node.driver.fail("nvmlDeviceGetUUID", pynvml.NVML_ERROR_GPU_IS_LOST, gpu=1)
    assert rig.turn().value("gpu_visible") == 1


def test_a_gpu_without_a_name_is_there_but_not_shown(make_rack, unname):
    rack = make_rack(gpus=2)
    unname(rack.driver.gpus[1].uuid)
    assert [gpu.uuid for gpu in rack.turn(2).gpus] == [rack.driver.gpus[0].uuid]
    assert rack.snapshot.visible == 2


@pytest.mark.parametrize("how", ["lose", "vanish"])
def test_a_lost_gpu_is_gone_from_the_series_and_counted_as_missing_until_it_is_back(make_rig, how):
    rig = make_rig(gpus=3).turn(2)
    uuid = rig.node.driver.gpus[1].uuid
    getattr(rig.node.driver, how)(1)
    rig.turn()
    assert (rig.value("gpu_expected"), rig.value("gpu_visible")) == (3, 2)
    for metric in ("gpu_info", "gpu_utilization_ratio", "gpu_busy_seconds_total"):
        assert rig.values(metric, gpu_uuid=uuid) == []
        assert len(rig.values(metric)) == 2
    rig.node.driver.restore(1)
    before = rig.turn().value("gpu_observed_seconds_total", gpu_uuid=uuid)
    assert before > 0
    assert rig.turn().value("gpu_observed_seconds_total", gpu_uuid=uuid) == pytest.approx(before + 5)


def test_the_job_on_a_lost_gpu_keeps_its_allocation_and_is_not_idle(make_rig):
    rig = make_rig(gpus=1, hold=1.0)
    rig.node.slurm_job(7, {0: Level(0.8)})
    rig.allocate(0, 7)
    rig.turn(3)
    observed = rig.value("workload_gpu_observed_seconds_total", workload="slurm/7")
    rig.node.driver.lose(0)
    rig.turn(4)
    assert rig.value("gpu_allocation", workload="slurm/7") == 1
    assert rig.value("workload_gpu_observed_seconds_total", workload="slurm/7") == observed
    assert rig.value("workload_gpu_allocated_seconds_total", workload="slurm/7") > observed


def test_gpus_that_the_driver_is_told_to_leave_out_are_told(make_rack):
    rack = make_rack(gpus=3, before=lambda driver: driver.exclude(1)).turn()
    assert (rack.snapshot.visible, rack.snapshot.excluded) == (2, (rack.driver.gpus[1].bus_id,))
    assert [gpu.uuid for gpu in rack.gpus] == [rack.driver.gpus[place].uuid for place in (0, 2)]


@pytest.mark.parametrize("call", ["nvmlGetExcludedDeviceCount", "nvmlGetExcludedDeviceInfoByIndex"])
def test_where_a_driver_does_not_tell_which_it_leaves_out_that_is_not_none(make_rack, call):
    def silent(driver):
        driver.exclude(1)
        driver.fail(call, pynvml.NVML_ERROR_UNKNOWN)

    rack = make_rack(gpus=2, before=silent).turn()
    assert (len(rack.gpus), rack.snapshot.excluded) == (1, None)
    assert rack.snapshot.failures == {(call, "unknown"): 1}


def test_a_driver_that_cannot_leave_any_out_leaves_none_out(make_rack):
    absent = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    rack = make_rack(before=lambda driver: driver.fail("nvmlGetExcludedDeviceCount", absent)).turn()
    assert (rack.snapshot.excluded, rack.snapshot.failures) == ((), {})
