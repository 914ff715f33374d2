"""Which calls a turn makes of NVML: a driver takes milliseconds for some, so that one more is a visible change."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pynvml
import pytest

from dutycycle_exporter.collected import COLLECTED, DEFAULT
from tests.fakes.nvml import A100, H100, GpuProcess, Level, Load

GPUS = 2
REVIEW = 12
NODE = {"nvmlDeviceGetCount": 1}
WHOLE = {
    "nvmlDeviceGetUtilizationRates": 1,
    "nvmlDeviceGetEncoderUtilization": 1,
    "nvmlDeviceGetDecoderUtilization": 1,
    "nvmlDeviceGetSamples": 1,
    "nvmlDeviceGetMemoryInfo": 1,
    "nvmlDeviceGetFieldValues": 1,
    "nvmlDeviceGetTemperature": 1,
    "nvmlDeviceGetClockInfo": 4,
    "nvmlDeviceGetPerformanceState": 1,
}
RUNNING = {
    "nvmlDeviceGetComputeRunningProcesses": 2,
    "nvmlDeviceGetMPSComputeRunningProcesses": 1,
    "nvmlDeviceGetGraphicsRunningProcesses": 1,
}
"""pynvml asks for the size first: these take microseconds."""
GPM = {"nvmlGpmSampleGet": 1, "nvmlGpmMetricsGet": 1}
WORK = {"nvmlDeviceGetProcessUtilization": 1}
REVIEWED = {"nvmlDeviceGetHandleByIndex": 1, "nvmlDeviceGetUUID": 1, "nvmlDeviceGetMigMode": 1}
EACH_MINUTE = {"nvmlDeviceGetSramEccErrorStatus": 1}
SLOW = {
    "energy": (pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 2),
    "thermal": (pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL, 6),
    "hw_thermal": (270, 6),
    "power_brake": (271, 6),
    "pcie_replays": (pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 6),
}
"""Fields that take a driver long: their number, and of how many turns one reads them."""


def called(rack):
    """The calls since the last time, without those of the thread that waits for events."""
    total = Counter({name: n for name, n in rack.driver.state.called().items() if "Event" not in name})
    found = total - rack.seen
    rack.seen = total
    return found


def calls_of(*parts):
    found = Counter(NODE)
    for part in parts:
        found.update({name: GPUS * count for name, count in part.items()})
    return found


@pytest.fixture
def settled(make_rack):
    """A rack of GPUs at work, when it knows what they have; its next review is `REVIEW` turns after the first."""

    def make(model=H100, *, collect=DEFAULT, pids=(10,), **options):
        rack = make_rack(gpus=GPUS, model=model, collect=collect, **options)
        for gpu in range(GPUS):
            rack.driver.run(f"job {gpu}", {gpu: Load(Level(0.6), [GpuProcess(100 * gpu + pid) for pid in pids])})
        rack.seen = Counter()
        rack.turn(3)
        called(rack)
        return rack

    return make


def test_each_turn_of_a_gpu_with_a_process(settled):
    rack = settled()
    for _ in range(REVIEW - 3):
        assert called(rack.turn()) == calls_of(WHOLE, RUNNING, GPM)
    assert called(rack.turn()) == calls_of(WHOLE, RUNNING, GPM, REVIEWED, EACH_MINUTE)
    assert called(rack.turn()) == calls_of(WHOLE, RUNNING, GPM)


def test_each_turn_of_a_gpu_that_two_share(settled):
    assert called(settled(pids=(10, 20)).turn()) == calls_of(WHOLE, RUNNING, GPM, WORK)


def test_each_turn_of_a_gpu_with_everything_collected(settled):
    accounting = {"nvmlDeviceGetAccountingMode": 1}
    assert called(settled(collect=frozenset(COLLECTED)).turn()) == calls_of(WHOLE, RUNNING, GPM, WORK, accounting)


def test_each_turn_of_a_gpu_without_gpm(settled):
    assert called(settled(A100).turn()) == calls_of(WHOLE, RUNNING)


def test_each_turn_of_an_idle_gpu(settled):
    idle = {"nvmlDeviceGetComputeRunningProcesses": 1, "nvmlDeviceGetGraphicsRunningProcesses": 1}
    rack = settled(pids=())
    assert called(rack.turn()) == calls_of(WHOLE, idle, GPM)


def asked(monkeypatch):
    """Which fields each call asks for."""
    found = []
    real = pynvml.nvmlDeviceGetFieldValues

    def spy(handle, fields):
        found.append({number for number, _ in fields})
        return real(handle, fields)

    spy.__name__ = "nvmlDeviceGetFieldValues"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", spy)
    return found


@pytest.mark.parametrize(
    ("interval", "at_most"), [(0.25, 6), (5.0, 6), (10.0, 3), (30.0, 1), (60.0, 1)], ids=lambda value: f"{value:g}"
)
def test_fields_that_take_long_are_read_at_some_turns_and_at_long_intervals_at_each(
    make_rack, monkeypatch, interval, at_most
):
    fields = asked(monkeypatch)
    make_rack(interval=interval).turn(25)
    for number, every in SLOW.values():
        turns = [turn for turn, numbers in enumerate(fields) if number in numbers]
        assert turns == list(range(0, 25, max(1, every * at_most // 6)))


def test_between_two_readings_of_its_field_a_counter_is_told_as_it_was_and_said_to_be(make_rack):
    rack = make_rack()
    for reason in ("thermal", "hw_thermal", "power"):
        rack.driver.throttle(0, reason, 0.5)
    told = [rack.turn().gpu for _ in range(12)]
    energies = [gpu.energy for gpu in told]
    assert [a == b for a, b in pairwise(energies)] == [True, False] * 5 + [True]
    for reason in ("thermal", "hw_thermal"):
        seconds = [dict(gpu.throttle)[reason] for gpu in told]
        assert len(set(seconds)) == 2
        assert seconds[6] - seconds[5] == pytest.approx(15)
    assert len({dict(gpu.throttle)["power_cap"] for gpu in told}) == 12
    carried = {("throttle", "thermal"), ("throttle", "hw_thermal"), ("throttle", "power_brake"), ("pcie_replays", "")}
    assert [gpu.carried for gpu in told[:4]] == [
        frozenset(),
        carried | {("energy", "")},
        carried,
        carried | {("energy", "")},
    ]
    assert told[6].carried == frozenset()


def test_a_field_that_could_not_be_read_is_missing_and_asked_for_at_each_turn_until_it_can(make_rack, monkeypatch):
    fields = asked(monkeypatch)
    rack = make_rack().turn()
    spy, broken = pynvml.nvmlDeviceGetFieldValues, [True]

    def flawed(handle, wanted):
        values = spy(handle, wanted)
        for value in values if broken else ():
            if value.fieldId == pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
                value.nvmlReturn = pynvml.NVML_ERROR_TIMEOUT
        return values

    flawed.__name__ = "nvmlDeviceGetFieldValues"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", flawed)
    assert [rack.turn().gpu.energy is None for _ in range(4)] == [False, True, True, True]
    broken.clear()
    assert rack.turn().gpu.energy is not None
    number = pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION
    assert [number in numbers for numbers in fields] == [True, False, True, True, True, True]


def test_after_a_call_that_failed_nothing_is_told_as_it_was_before(make_rack):
    rack = make_rack().turn()
    rack.driver.fail("nvmlDeviceGetFieldValues", pynvml.NVML_ERROR_TIMEOUT, times=1)
    assert (rack.turn().gpu.energy, rack.gpu.throttle, rack.gpu.pcie_replays) == (None, (), None)
    assert rack.turn().gpu.carried == frozenset()
    assert rack.gpu.energy is not None


def test_at_a_turn_at_which_no_field_is_due_none_is_asked_for_and_each_is_told(make_rack):
    """Before driver 555 there are no counters of PCIe's bytes."""
    rack = make_rack(driver_version="535.104.12", collect=frozenset({"pcie"}))
    rack.driver.force(0, pcie_replays=3)
    assert {rack.turn().gpu.pcie_replays for _ in range(12)} == {3}
    assert rack.driver.state.calls("nvmlDeviceGetFieldValues") == 2
