"""That something is not supported holds for an hour: a GPU may say so of what it has."""

from __future__ import annotations

import pynvml
import pytest

from tests.fakes.nvml import H100, V100, GpuProcess, Level, Load, Steps

ABSENT = pynvml.NVML_ERROR_NOT_SUPPORTED
READINGS = {
    "nvmlDeviceGetTemperature": lambda gpu: dict(gpu.temperatures).get("gpu"),
    "nvmlDeviceGetFieldValues": lambda gpu: gpu.energy,
    "nvmlDeviceGetSamples": lambda gpu: len(gpu.spans) > 1 or None,
    "nvmlDeviceGetComputeRunningProcesses": lambda gpu: gpu.processes,
    "nvmlGpmQueryDeviceSupport": lambda gpu: gpu.activity,
    "nvmlGpmMetricsGet": lambda gpu: gpu.activity,
}


@pytest.mark.parametrize("call", READINGS)
def test_what_was_not_supported_is_read_an_hour_later(make_rack, call):
    rack, read = make_rack(), READINGS[call]
    rack.driver.run("job", {0: Load(Steps(2, 0.5), [GpuProcess(10)])})
    rack.driver.fail(call, ABSENT)
    assert read(rack.turn(3).gpu) is None
    rack.driver.heal(call)
    assert read(rack.turn(3).gpu) is None
    rack.turn(seconds=3600)
    assert read(rack.turn(3).gpu) is not None
    assert rack.snapshot.failures == {}


def test_the_hour_is_shortened_as_all_durations_are(make_rack):
    rack = make_rack(time_scale=360)
    rack.driver.fail("nvmlDeviceGetTemperature", ABSENT, times=1)
    assert dict(rack.turn().gpu.temperatures).get("gpu") is None
    assert dict(rack.turn(seconds=11).gpu.temperatures).get("gpu") is not None


@pytest.mark.parametrize("call", ["nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMemoryInfo"])
def test_that_of_a_mig_instance_likewise(make_rack, call):
    rack = make_rack()
    rack.driver.set_mig(0, ["1g.10gb"])
    rack.driver.fail(call, ABSENT)

    def read():
        [instance] = rack.instances
        return instance.processes if "Processes" in call else instance.memory_used

    rack.turn(2)
    assert read() is None
    rack.driver.heal(call)
    rack.turn()
    assert read() is None
    rack.turn(seconds=3600).turn()
    assert read() is not None


@pytest.mark.parametrize("model", [H100, V100])
def test_what_is_supported_goes_on_through_the_retry(make_rack, model):
    """Nothing is missing in the turn in which all is asked for, and no counter begins anew."""
    rack = make_rack(model=model)
    rack.driver.run("job", {0: Load(Level(0.5), [GpuProcess(10)])})
    before = rack.turn(3).gpu
    retried = rack.turn(seconds=3600).gpu
    for name in ("utilization", "memory_used", "energy", "power", "processes", "fan", "nvlink_bytes", "clocks"):
        assert (getattr(retried, name) is None) == (getattr(before, name) is None), name
    assert [name for name, _ in retried.throttle] == [name for name, _ in before.throttle]
    assert [name for name, _ in retried.nvlink_bytes] == [name for name, _ in before.nvlink_bytes]
    assert (retried.activity is None) == (before.activity is None)
    assert rack.snapshot.failures == {}
