"""What the reader does about GPUs from which calls did not return in an earlier child."""

from __future__ import annotations

from collections import Counter

import pynvml
import pytest

from dutycycle_exporter.listening import SUSPECTED
from dutycycle_exporter.model import Asking, Returned
from dutycycle_exporter.nvml import NvmlReader
from tests.exporter.nvml.test_every_call import WHOLE

CALLS = frozenset(WHOLE) - {
    "nvmlDeviceGetCount",
    "nvmlGpmSampleAlloc",
    "nvmlGpmMetricsGet",
    "nvmlDeviceGetHandleByIndex",
}
"""About one GPU."""


@pytest.fixture
def make(make_rack):
    """A rack, and what its reader tells of the GPU that it is about to ask."""

    def make(gpus=3, **options):
        rack, asked = make_rack(gpus=gpus), []
        rack.reader.close()
        rack.reader = NvmlReader(interval=rack.interval, on_asking=asked.append, on_xid=rack.xids.append, **options)
        return rack, asked

    return make


def calls(rack, slot):
    return sum(rack.driver.state.calls(name, slot) for name in CALLS)


def read(rack):
    """The GPUs that were read, by index."""
    return [gpu.index for gpu in rack.gpus if gpu.memory_used is not None]


def test_before_each_gpu_it_tells_which_one_it_is_and_how_many_it_has_read(make):
    rack, asked = make()
    rack.turn()
    assert [(one.gpu, one.read) for one in asked] == [((i, 3), 0) for i in range(3)] + [((i, 3), i) for i in range(3)]
    asked.clear()
    rack.turn()
    assert [(one.gpu, one.read) for one in asked] == [((i, 3), i) for i in range(3)]


def test_poll_names_each_gpu_and_asks_a_suspect_last(make):
    """The readings of the turn before do not count: the driver may have stopped since."""
    rack, messages = make(ask_last=[(0, 3)])
    rack.driver.fail("nvmlDeviceGetSamples", pynvml.NVML_ERROR_NOT_SUPPORTED)
    rack.turn(3)
    messages.clear()
    rack.reader.poll(rack.clock.now)
    assert messages == [Asking((1, 3), 0), Asking((2, 3), 1), Asking((0, 3), 2), Returned()]


def test_poll_leaves_out_a_gpu_that_took_too_long(make_rack):
    now = [0.0]
    rack = make_rack(
        gpus=3,
        before=lambda driver: driver.fail("nvmlDeviceGetSamples", pynvml.NVML_ERROR_NOT_SUPPORTED),
        timer=lambda _: now[0],
    )
    rack.turn(2)

    def polled():
        """How often each GPU is called in a poll."""
        calls = [rack.driver.state.calls("nvmlDeviceGetUtilizationRates", slot) for slot in range(3)]
        rack.reader.poll(rack.clock.now)
        return [rack.driver.state.calls("nvmlDeviceGetUtilizationRates", slot) - calls[slot] for slot in range(3)]

    assert polled() == [1, 1, 1]
    real = pynvml.nvmlDeviceGetUtilizationRates

    def slow(handle):
        now[0] += 6.0
        return real(handle)

    slow.__name__ = real.__name__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", slow)
        assert polled() == [1, 0, 0], "one GPU's time is over, the others have to wait"
    assert polled() == [0, 1, 1]
    rack.turn()
    assert polled() == [1, 1, 1], "a turn read it in time"


def test_a_suspect_is_asked_from_the_second_turn_on_and_after_the_others_were_read(make):
    rack, asked = make(ask_last=[(0, 3)])
    before = calls(rack, 0)
    rack.turn()
    assert (calls(rack, 0), read(rack), rack.snapshot.visible) == (before, [1, 2], 2)
    asked.clear()
    rack.turn()
    assert (read(rack), rack.snapshot.visible) == ([0, 1, 2], 3)
    assert [one.read for one in asked if one.gpu == (0, 3)] == [2, 2], "who it is, and all else"
    for _ in range(30):
        asked.clear()
        rack.turn()
        assert read(rack) == [0, 1, 2]
        assert {one.read for one in asked if one.gpu == (0, 3)} == {2}


def test_one_that_is_left_out_is_never_asked_and_counts_as_lost(make):
    rack, asked = make(leave_out=[(1, 3)])
    before = calls(rack, 1)
    rack.turn(80)
    assert (calls(rack, 1), read(rack), rack.snapshot.visible) == (before, [0, 2], 2)
    assert (1, 3) not in {one.gpu for one in asked}
    assert rack.snapshot.failures == {}


def test_that_is_no_reason_to_ask_the_others_who_they_are_at_every_turn(make):
    rack, _ = make(leave_out=[(1, 3)], ask_last=[(2, 3)])
    rack.turn(3)
    before = rack.driver.state.calls("nvmlDeviceGetUUID")
    rack.turn(5)
    assert rack.driver.state.calls("nvmlDeviceGetUUID") == before


@pytest.mark.parametrize("options", [{"leave_out": [(1, 4)]}, {"ask_last": [(1, 2)]}])
def test_of_another_number_of_gpus_an_index_means_another_one(make, options):
    rack, _ = make(**options)
    assert read(rack.turn()) == [0, 1, 2]


def test_when_one_vanishes_who_was_left_out_by_its_index_is_asked(make):
    rack, _ = make(leave_out=[(1, 3)])
    rack.turn(2)
    rack.driver.vanish(1)
    rack.turn()
    assert [gpu.uuid for gpu in rack.gpus] == [rack.driver.gpus[slot].uuid for slot in (0, 2)]
    assert read(rack) == [0, 1]


def test_nvml_may_have_to_bring_up_a_suspect_when_it_is_asked_first_and_only_then(make):
    rack, asked = make(ask_last=[(0, 3)])
    rack.turn(30)
    assert [(one.gpu, one.read) for one in asked if one.anew] == [((0, 3), 2)]


def test_who_is_suspected_says_nothing_of_the_others_and_the_read_of_one_is_none_of_a_healthy_gpu(make):
    """All but the one that is left out: there is nobody who could be read before them."""
    rack, asked = make(leave_out=[(0, 3)], ask_last=[(1, 3), (2, 3)])
    for _ in range(3):
        assert (read(rack.turn()), rack.snapshot.visible) == ([1, 2], 2)
    assert {one.read for one in asked} == {0}


def test_a_suspect_goes_the_way_of_the_others_after_ten_minutes(make_rack):
    now, asked = [0.0], []
    rack = make_rack(gpus=3)
    rack.reader.close()
    rack.reader = NvmlReader(interval=5.0, ask_last=[(0, 3)], on_asking=asked.append, timer=lambda: now[0])
    rack.turn(3)
    now[0] = SUSPECTED + 1
    asked.clear()
    rack.turn()
    assert [one.gpu[0] for one in asked][-3:] == [0, 1, 2]


def test_a_suspect_is_read_where_there_is_no_time_for_all(make_rack, monkeypatch):
    """Each GPU takes so long that a turn has time for three of five, and for one that is asked last."""
    now, asked = [0.0], []
    rack = make_rack(gpus=5)
    rack.reader.close()
    rack.reader = NvmlReader(interval=5.0, ask_last=[(0, 5)], on_asking=asked.append, timer=lambda: now[0])
    real = pynvml.nvmlDeviceGetMemoryInfo

    def slow(handle, *arguments):
        now[0] += 4.0
        return real(handle, *arguments)

    slow.__name__ = real.__name__
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", slow)
    times = Counter()
    for _ in range(12):
        times.update(read(rack.turn()))
    assert min(times[index] for index in range(5)) >= 5
    assert all(one.read for one in asked if one.gpu == (0, 5))


def test_a_suspect_stays_registered_for_xids(make):
    rack, _ = make(ask_last=[(0, 3)])
    rack.turn(3)
    watched = []
    monkeypatched = rack.reader._xids.watch
    rack.reader._xids.watch = lambda devices: (watched.append({d.index for d in devices}), monkeypatched(devices))
    rack.turn(15)
    assert all(each == {0, 1, 2} for each in watched)
    assert len(watched) > 15


def test_a_suspect_that_is_lost_is_missing(make):
    rack, _ = make(ask_last=[(1, 3)])
    rack.driver.lose(1)
    rack.turn(3)
    assert (read(rack), rack.snapshot.visible) == ([0, 2], 2)


@pytest.mark.parametrize("gpus", [1, 3])
def test_where_all_are_suspected_none_is_and_all_are_read_at_once(make, gpus):
    rack, _ = make(gpus, ask_last=[(index, gpus) for index in range(gpus)])
    for _ in range(3):
        assert (read(rack.turn()), rack.snapshot.visible) == (list(range(gpus)), gpus)
