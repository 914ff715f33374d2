"""A GPU whose calls take seconds, or fail after seconds, takes a part of the turn, and not the others' readings."""

from __future__ import annotations

import functools
import logging

import pynvml
import pytest

from dutycycle_exporter.nvml import NvmlReader
from dutycycle_exporter.nvml.calls import Calls
from dutycycle_exporter.nvml.slow import SlowGpus
from tests.exporter.nvml.test_every_call import WHOLE
from tests.fakes.nvml import GpuProcess, Level, Load

EACH = 6.0
"""Seconds after which a call fails about a GPU whose firmware does not answer."""
HANDLE = "nvmlDeviceGetHandleByIndex"
CALLS = frozenset(WHOLE) - {"nvmlDeviceGetCount", "nvmlGpmSampleAlloc", "nvmlGpmMetricsGet", HANDLE}
"""About one GPU."""
QUICK = {HANDLE, "nvmlDeviceGetUUID"}
"""What NVML has in its memory."""


class Firmware:
    """Time that passes only in calls about the GPUs in `slots`: each fails, but for the `quick` ones."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        self.slots, self.quick = {}, QUICK
        # Before it has an answer a handle is no GPU's, so that the double counts this call for none.
        self._handle = pynvml.nvmlDeviceGetHandleByIndex
        monkeypatch.setattr(pynvml, HANDLE, functools.wraps(self._handle)(functools.partial(self._find)))

    def __call__(self, driver):
        for slot, before in self.slots.items():
            self.slots[slot] = self._made(driver, slot)
            self.now += EACH * (self.slots[slot] - before)
        return self.now

    def _made(self, driver, slot):
        return sum(driver.state.calls(name, slot) for name in CALLS - self.quick)

    def _find(self, index):
        if index in self.slots and HANDLE not in self.quick:
            self.now += EACH
        return self._handle(index)

    def stops(self, rack, *slots):
        for slot in slots:
            self.slots[slot] = self._made(rack.driver, slot)
            for name in (CALLS | {HANDLE}) - self.quick:
                rack.driver.fail(name, pynvml.NVML_ERROR_TIMEOUT, gpu=slot)

    def answers(self, rack):
        for slot in self.slots:
            for name in CALLS | {HANDLE}:
                rack.driver.heal(name, gpu=slot)
        self.slots = {}


@pytest.fixture
def firmware(monkeypatch, pynvml_double):
    return Firmware(monkeypatch)


@pytest.fixture
def make(make_rack, firmware):
    def work(driver):
        for gpu in range(len(driver.gpus)):
            driver.run(f"a{gpu}", {gpu: Load(Level(0.5), [GpuProcess(10 + gpu, 2**30)])})

    return lambda gpus=3: make_rack(gpus=gpus, before=work, timer=firmware).turn(3)


def well(rack):
    """The GPUs that were read, by index."""
    return [gpu.index for gpu in rack.gpus if gpu.utilization is not None and gpu.energy is not None]


def test_one_that_does_not_answer_costs_a_turn_seconds_and_the_others_nothing(make, firmware):
    rack = make()
    firmware.stops(rack, 1)
    for _ in range(40):
        rack.turn()
        assert well(rack) == [0, 2]
        assert rack.snapshot.duration < 12
        assert rack.snapshot.visible == 3
    firmware.answers(rack)
    rack.turn(13)
    assert well(rack) == [0, 1, 2]
    assert rack.snapshot.slow == ()


def test_what_is_known_of_it_meanwhile_is_who_it_is(make, firmware):
    rack = make()
    before = rack.gpus[1]
    firmware.stops(rack, 1)
    rack.turn(3)
    found = rack.gpus[1]
    assert [gpu.index for gpu in rack.gpus] == [0, 1, 2]
    assert (found.uuid, found.model, found.pci_bus_id) == (before.uuid, before.model, before.pci_bus_id)
    assert (found.processes, found.energy, found.memory_used, found.spans) == (None, None, None, ())


def test_a_call_for_which_there_is_no_time_counts_as_failed(make, firmware):
    rack = make()
    firmware.stops(rack, 1)
    failures = rack.turn().snapshot.failures
    assert failures["nvmlDeviceGetFieldValues", "out_of_time"] == 1
    assert failures["nvmlDeviceGetSamples", "out_of_time"] == 1
    assert {error for _, error in failures} == {"timeout", "out_of_time"}


def test_it_is_left_alone_for_a_minute_from_the_second_time_on(make, firmware):
    """The first time it may have been the machine that stood still."""
    rack = make()
    firmware.stops(rack, 1)
    took = []
    for _ in range(28):
        took.append(rack.turn().snapshot.duration)
    assert [turn for turn, seconds in enumerate(took) if seconds] == [0, 1, 14, 27]
    assert rack.snapshot.slow == (1,)


def test_a_machine_that_stood_still_once_costs_one_turn_and_what_was_read_in_it_counts(make, firmware, monkeypatch):
    rack = make()
    real = pynvml.nvmlDeviceGetMemoryInfo

    def stand_still(handle, *arguments):
        firmware.now += 100
        monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", real)
        return real(handle, *arguments)

    stand_still.__name__ = real.__name__
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", stand_still)
    rack.turn()
    assert (rack.gpus[0].spans != (), rack.gpus[0].memory_used is not None, rack.gpus[0].energy) == (True, True, None)
    assert rack.snapshot.slow == ()
    rack.turn()
    assert well(rack) == [0, 1, 2]


@pytest.mark.parametrize("quick", [QUICK, set(), {HANDLE}])
@pytest.mark.parametrize("sick", [1, 7])
def test_however_many_do_not_answer_no_turn_takes_as_long_as_a_child_may(make, firmware, quick, sick):
    rack = make(8)
    firmware.quick = quick
    firmware.stops(rack, *range(sick))
    whole = 0
    for _ in range(40):
        rack.turn()
        assert rack.snapshot.duration < 25
        whole += well(rack) == list(range(sick, 8))
    assert whole >= 34
    firmware.answers(rack)
    rack.turn(13 + sick)
    assert well(rack) == list(range(8))


def test_one_that_is_slow_from_the_start_and_says_nothing_of_itself_takes_nothing_of_the_others(make_rack, firmware):
    firmware.quick = set()
    rack = make_rack(gpus=2, timer=firmware)
    firmware.stops(rack, 0)
    rack.turn(3)
    assert [gpu.index for gpu in rack.gpus] == [1]
    assert rack.snapshot.slow == (0,)
    firmware.answers(rack)
    rack.turn(14)
    assert well(rack) == [0, 1]


def test_a_gpu_that_moved_down_is_not_left_alone_for_the_one_before_it(make, firmware):
    rack = make()
    firmware.stops(rack, 1)
    rack.turn(3)
    rack.driver.vanish(1)
    rack.turn()
    assert [(gpu.index, gpu.uuid) for gpu in rack.gpus] == [
        (0, rack.driver.gpus[0].uuid),
        (1, rack.driver.gpus[2].uuid),
    ]
    assert well(rack) == [0, 1]
    assert rack.snapshot.slow == ()


def test_one_that_is_lost_after_it_was_slow_is_lost(make, firmware):
    rack = make()
    firmware.stops(rack, 1)
    rack.turn(3)
    firmware.answers(rack)
    rack.driver.lose(1)
    rack.turn(13)
    assert rack.snapshot.visible == 2
    assert [gpu.index for gpu in rack.gpus] == [0, 2]


def test_its_job_keeps_it_and_it_is_visible_and_the_log_names_it_once(make_rig, firmware, caplog):
    caplog.set_level(logging.INFO)
    rig = make_rig(gpus=2, hold=1.0)
    rig.close()
    driver = rig.node.driver
    rig.reader = NvmlReader(interval=rig.interval, timer=functools.partial(firmware, driver))
    rig.node.slurm_job(7, {1: Level(0.8)})
    rig.allocate(1, 7)
    held = rig.turn(3).value("workload_gpu_allocated_seconds_total", workload="slurm/7")
    firmware.stops(rig.node, 1)
    rig.turn(20)
    uuid = driver.gpus[1].uuid
    assert rig.value("gpu_visible") == 2
    assert rig.value("gpu_info", gpu_uuid=uuid) == 1
    assert rig.value("gpu_allocation", workload="slurm/7", gpu="1", gpu_uuid=uuid) == 1
    assert rig.value("workload_gpu_allocated_seconds_total", workload="slurm/7") == held + 100
    for name in ("gpu_utilization_ratio", "gpu_memory_used_bytes", "gpu_power_watts", "gpu_processes"):
        assert rig.value(name, gpu="1") is None
        assert rig.value(name, gpu="0") is not None
    assert [text for text in caplog.messages if uuid in text] == [
        f"GPU 1 ({uuid}) answers too slowly: it is asked once a minute. The kernel's log may have an XID of it"
    ]
    firmware.answers(rig.node)
    rig.turn(13)
    assert rig.value("gpu_utilization_ratio", gpu="1") is not None
    assert caplog.messages[-1] == "GPU 1 is no longer left out for answering too slowly"


def test_who_had_no_time_in_one_turn_is_among_the_first_of_the_next():
    """A machine on which each GPU takes as long as the last one's patience: none of them is the last for ever."""
    now = [0.0]
    calls = Calls(timer=lambda: now[0])
    slow = SlowGpus(calls, timeout=20.0, time_scale=1.0, timer=lambda: now[0])

    def turn():
        slow.begin(now[0])
        read = []
        for index in slow.in_order(range(5)):
            if slow.admits(index):
                with slow.asking(index, whole=True):
                    now[0] += 4.0
                read.append(index)
        slow.end()
        return read

    assert [turn() for _ in range(4)] == [[0, 1, 2, 3, 4], [0, 1, 2], [3, 4, 0], [1, 2, 0]]
    assert calls.take_failures() == {("nvmlDeviceGetSamples", "out_of_time"): 6}


@pytest.mark.parametrize(("anew", "struck"), [(True, set()), (False, {0})])
def test_later_it_has_that_time_for_one_that_may_have_to_be_brought_up(anew, struck):
    now = [0.0]
    calls = Calls(timer=lambda: now[0])
    slow = SlowGpus(calls, timeout=20.0, time_scale=1.0, timer=lambda: now[0])
    slow.end()
    for _ in range(2):
        slow.begin(now[0])
        with slow.asking(0, anew=anew):
            now[0] += 12.0
    assert slow.resting == struck


def test_who_is_asked_last_may_begin_later_than_the_others():
    now = [0.0]
    calls = Calls(timer=lambda: now[0])
    slow = SlowGpus(calls, timeout=20.0, time_scale=1.0, timer=lambda: now[0])
    slow.end()
    slow.begin(0.0)
    found = []
    for now[0] in (10.0, 10.1, 15.0, 15.1):
        found.append((slow.admits(0), slow.admits(0, late=True)))
    assert found == [(True, True), (False, True), (False, True), (False, False)]


def test_in_the_first_turn_nvml_has_time_to_bring_up_each_gpu():
    now = [0.0]
    calls = Calls(timer=lambda: now[0])
    slow = SlowGpus(calls, timeout=20.0, time_scale=1.0, timer=lambda: now[0])
    struck = []
    for _ in range(2):
        slow.begin(now[0])
        for index in slow.in_order(range(3)):
            assert slow.admits(index)
            with slow.asking(index, whole=True):
                now[0] += 9.0 if index == 0 else 0.1
        slow.end()
        struck.append([index for index in range(3) if not slow.admits(index)])
    assert struck == [[], [0]]


def test_counters_that_took_seconds_to_read_say_when_they_were_read(make_rack):
    made = make_rack(2, timer=lambda driver: 2.0 * driver.state.calls("nvmlDeviceGetFieldValues"))
    counters = [
        (reading.counted_at - made.snapshot.at, reading.energy is not None)
        for _ in range(3)
        for reading in made.turn().gpus
    ]
    assert counters == [(2.0, True), (4.0, True)] * 3
