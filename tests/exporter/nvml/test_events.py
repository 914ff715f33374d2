"""XIDs are told at once, once, of the right GPU; a wait that fails or hangs holds up nothing."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pynvml
import pytest

from dutycycle_exporter.collected import DEFAULT
from dutycycle_exporter.model import Xid
from dutycycle_exporter.nvml import events
from dutycycle_exporter.pipe import PipeClosedError
from tests.exporter.daemon import eventually
from tests.fakes.nvml import RTX_3080_TI


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(events, "_WAIT_MS", 50)
    monkeypatch.setattr(events, "_FIRST_PAUSE", 0.02)
    monkeypatch.setattr(events, "_LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(events, "_RETRY", 0.05)


def registered(rack, times=1):
    """When so many GPUs are registered for certain: the wait after it has begun."""
    eventually(lambda: rack.driver.state.calls("nvmlDeviceRegisterEvents") >= times)
    waits = rack.driver.state.calls("nvmlEventSetWait")
    eventually(lambda: rack.driver.state.calls("nvmlEventSetWait") > waits)
    return rack


def xids(rack, many):
    """So many (GPU's UUID, code), of those that were told last."""
    eventually(lambda: len(rack.xids) >= many)
    found = [(xid.gpu_uuid, xid.code) for xid in rack.xids]
    del rack.xids[:]
    return found


def test_xids_are_told_in_their_order_once_and_of_the_right_gpu(make_rack):
    rack = registered(make_rack(gpus=2).turn(), 2)
    first, second = (gpu.uuid for gpu in rack.driver.gpus)
    rack.driver.xid(1, 79)
    rack.driver.xid(0, 31)
    rack.driver.xid(1, 79)
    assert xids(rack, 3) == [(second, 79), (first, 31), (second, 79)]
    registered(rack.turn(2), 2)
    assert rack.xids == []


def test_an_xid_is_told_with_the_time_of_day_at_which_it_was_reported(make_rack):
    rack = registered(make_rack().turn())
    rack.clock.advance(1000)
    rack.driver.xid(0, 48)
    eventually(lambda: rack.xids)
    assert rack.xids == [Xid(rack.driver.gpus[0].uuid, 48, rack.clock.now)]


def test_an_xid_is_told_though_the_call_that_it_has_hanging_never_returns(make_rack):
    """As an XID 119 or 79 does to whatever asks that GPU next."""
    rack = registered(make_rack(gpus=2).turn(), 2)
    rack.driver.hang("nvmlDeviceGetFieldValues", gpu=1)
    reading = threading.Thread(target=rack.turn, daemon=True)
    reading.start()
    eventually(lambda: rack.driver.state.hung("nvmlDeviceGetFieldValues"))
    rack.driver.xid(1, 119)
    assert xids(rack, 1) == [(rack.driver.gpus[1].uuid, 119)]
    assert reading.is_alive()
    rack.driver.heal("nvmlDeviceGetFieldValues", gpu=1)
    reading.join()


def test_xids_are_told_though_the_first_reading_hangs(make_rack):
    """A child that takes the place of one that hanged may hang as well, and others' XIDs are not its."""
    rack = make_rack(gpus=2, before=lambda driver: driver.hang("nvmlDeviceGetFieldValues", gpu=0))
    reading = threading.Thread(target=rack.turn, daemon=True)
    reading.start()
    registered(rack, 2)
    rack.driver.xid(1, 63)
    assert xids(rack, 1) == [(rack.driver.gpus[1].uuid, 63)]
    rack.driver.heal("nvmlDeviceGetFieldValues", gpu=0)
    reading.join()


def test_where_nobody_is_left_to_be_told_the_watch_ends(make_rack):
    def tell(xid):
        raise PipeClosedError("the exporter is gone")

    rack = registered(make_rack().turn())
    rack.reader._xids._on_xid = tell
    rack.driver.xid(0, 79)
    rack.reader._xids._thread.join(60)
    assert not rack.reader._xids._thread.is_alive()


def test_an_xid_of_a_mig_instance_is_its_gpu_s(make_rack):
    rack = make_rack()
    rack.driver.set_mig(0, ["1g.10gb"])
    registered(rack.turn())
    rack.driver.xid(0, 94, instance=0)
    assert xids(rack, 1) == [(rack.driver.gpus[0].uuid, 94)]


class Wait:
    """In the place of the driver's: gives the (handle, code) that were put in, and counts how often it was called."""

    def __init__(self):
        self.events, self.calls = [], 0

    def __call__(self, events, timeout):
        self.calls += 1
        if not self.events:
            time.sleep(0.01)
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        handle, code = self.events.pop()
        return pynvml.c_nvmlEventData_t(device=handle, eventType=pynvml.nvmlEventTypeXidCriticalError, eventData=code)

    def turn(self):
        """Until all that was wanted before is registered, or no longer."""
        before = self.calls
        eventually(lambda: self.calls > before + 1)


@pytest.fixture
def wait(monkeypatch):
    wait = Wait()
    monkeypatch.setattr(pynvml, "nvmlEventSetWait_v2", wait)
    return wait


def instance_handle():
    return pynvml.nvmlDeviceGetMigDeviceHandleByIndex(pynvml.nvmlDeviceGetHandleByIndex(0), 0)


def test_an_event_with_the_handle_of_an_instance_is_its_gpu_s(make_rack, wait):
    rack = make_rack()
    rack.driver.set_mig(0, ["1g.10gb"])
    wait.events.append((instance_handle(), 43))
    rack.turn()
    assert xids(rack, 1) == [(rack.driver.gpus[0].uuid, 43)]


def test_the_xid_that_tells_why_a_gpu_is_lost_is_its_own_though_it_answers_no_more(make_rack, wait):
    """It may come after a read has found the GPU lost."""
    rack = make_rack(gpus=2).turn()
    wait.turn()
    handle = pynvml.nvmlDeviceGetHandleByIndex(1)
    rack.driver.lose(1)
    rack.turn()
    wait.turn()
    wait.events.append((handle, 79))
    assert xids(rack, 1) == [(rack.driver.gpus[1].uuid, 79)]


def test_an_xid_counts_also_where_nobody_says_whose_it_is(make_rack, wait):
    rack = make_rack()
    rack.driver.set_mig(0, ["1g.10gb"])
    call = "nvmlDeviceGetDeviceHandleFromMigDeviceHandle"
    handle = instance_handle()
    rack.driver.fail(call, pynvml.NVML_ERROR_GPU_IS_LOST)
    rack.turn()
    wait.turn()
    wait.events.append((handle, 79))
    assert xids(rack, 1) == [("", 79)]
    assert rack.turn().snapshot.failures == {(call, "gpu_is_lost"): 1}
    assert rack.driver.state.calls("nvmlEventSetCreate") == 1, "the others are watched on"


def test_a_gpu_that_appears_later_is_watched_too(make_rack):
    rack = make_rack(gpus=2)
    rack.driver.vanish(1)
    registered(rack.turn())
    rack.driver.restore(1)
    registered(rack.turn(), 2)
    rack.driver.xid(1, 63)
    assert xids(rack, 1) == [(rack.driver.gpus[1].uuid, 63)]


def test_a_gpu_that_was_lost_is_watched_again_when_it_is_back_and_the_others_meanwhile(make_rack):
    rack = registered(make_rack(gpus=2).turn(), 2)
    before = rack.driver.state.calls("nvmlDeviceRegisterEvents", 0)
    rack.driver.lose(1)
    eventually(lambda: rack.turn().snapshot.failures.get(("nvmlEventSetWait", "gpu_is_lost")))
    eventually(lambda: rack.driver.state.calls("nvmlDeviceRegisterEvents", 0) > before)
    waits = rack.driver.state.calls("nvmlEventSetWait")
    eventually(lambda: rack.driver.state.calls("nvmlEventSetWait") > waits)
    rack.driver.xid(0, 13)
    assert xids(rack, 1) == [(rack.driver.gpus[0].uuid, 13)]
    before = rack.driver.state.calls("nvmlDeviceRegisterEvents", 1)
    rack.driver.restore(1)
    rack.turn()
    eventually(lambda: rack.driver.state.calls("nvmlDeviceRegisterEvents", 1) > before)
    waits = rack.driver.state.calls("nvmlEventSetWait")
    eventually(lambda: rack.driver.state.calls("nvmlEventSetWait") > waits)
    rack.driver.xid(1, 119)
    assert xids(rack, 1) == [(rack.driver.gpus[1].uuid, 119)]


def test_a_wait_that_fails_now_and_then_costs_the_others_no_time(make_rack, monkeypatch):
    """Who is not registered misses what happens meanwhile."""
    monkeypatch.setattr(events, "_FIRST_PAUSE", 999)
    rack = registered(make_rack(gpus=2).turn(), 2)
    eventually(lambda: time.sleep(2 * events._LONGEST_PAUSE) or True)
    rack.driver.lose(1)
    eventually(lambda: rack.turn().snapshot.failures.get(("nvmlEventSetWait", "gpu_is_lost")))
    registered(rack, 3)
    rack.driver.xid(0, 31)
    assert xids(rack, 1) == [(rack.driver.gpus[0].uuid, 31)]


def test_the_others_get_another_set_when_one_gpu_leaves_theirs_undefined(make_rack, monkeypatch):
    monkeypatch.setattr(events, "_RETRY", 999)

    def sick(driver):
        driver.fail("nvmlDeviceRegisterEvents", pynvml.NVML_ERROR_UNKNOWN, gpu=1)

    rack = registered(make_rack(gpus=3, before=sick).turn(), 4)
    state = rack.driver.state
    assert (state.calls("nvmlEventSetCreate"), state.calls("nvmlEventSetFree")) == (2, 1)
    assert state.calls("nvmlDeviceRegisterEvents", 1) == 1
    for gpu in (0, 2):
        rack.driver.xid(gpu, 79)
        assert xids(rack, 1) == [(rack.driver.gpus[gpu].uuid, 79)]


def test_gpus_that_have_no_events_are_asked_once_and_are_no_failure(make_rack, monkeypatch):
    register, turns = events.XidWatch._register, []

    def counted(*arguments):
        register(*arguments)
        turns.append(arguments)

    monkeypatch.setattr(events.XidWatch, "_register", counted)
    monkeypatch.setattr(events, "_WAIT_MS", 10)
    monkeypatch.setattr(events, "_RETRY", 0.0)
    rack = make_rack(gpus=2, model=RTX_3080_TI).turn()
    eventually(lambda: len(turns) > 3)
    assert rack.turn().snapshot.failures == {}
    assert rack.driver.state.calls("nvmlDeviceRegisterEvents") == 2
    assert rack.driver.state.calls("nvmlEventSetWait") == 0


@pytest.mark.parametrize("call", ["nvmlEventSetCreate", "nvmlDeviceRegisterEvents", "nvmlEventSetWait"])
def test_a_failure_is_counted_and_tried_again(make_rack, call):
    rack = make_rack(before=lambda driver: driver.fail(call, pynvml.NVML_ERROR_UNKNOWN, times=2))
    counted = Counter()

    def failed():
        counted.update(rack.turn().snapshot.failures)
        return counted == {(call, "unknown"): 2}

    eventually(failed)
    waits = rack.driver.state.calls("nvmlEventSetWait")
    eventually(lambda: rack.driver.state.calls("nvmlEventSetWait") > waits + 1)
    rack.driver.xid(0, 74)
    assert xids(rack, 1) == [(rack.driver.gpus[0].uuid, 74)]


@pytest.mark.parametrize("time_scale", [1.0, 3600.0])
@pytest.mark.parametrize("call", ["nvmlEventSetCreate", "nvmlDeviceRegisterEvents"])
def test_what_has_no_events_is_no_failure_and_asked_again_in_an_hour(make_rack, call, time_scale):
    absent = pynvml.NVML_ERROR_NOT_SUPPORTED
    rack = make_rack(before=lambda driver: driver.fail(call, absent), time_scale=time_scale).turn()
    eventually(lambda: rack.driver.state.calls(call))
    if time_scale == 1:
        time.sleep(3 * events._LONGEST_PAUSE)
        assert rack.driver.state.calls(call) == 1
    else:
        rack.driver.heal(call)
        registered(rack)
        rack.driver.xid(0, 79)
        assert xids(rack, 1) == [(rack.driver.gpus[0].uuid, 79)]
    assert rack.turn().snapshot.failures == {}


def test_a_wait_that_never_returns_holds_up_neither_reading_nor_closing(make_rack, monkeypatch):
    monkeypatch.setattr(events, "_JOIN", 0.1)
    rack = registered(make_rack().turn())
    rack.driver.hang("nvmlEventSetWait")
    eventually(lambda: rack.driver.state.hung("nvmlEventSetWait"))
    assert rack.turn(3).gpu.utilization == 0
    rack.reader.close()
    assert rack.driver.state.calls("nvmlShutdown") == 0, "it may hold what shutting down waits for"
    rack.driver.heal("nvmlEventSetWait")
    rack.reader._xids._thread.join()


def test_switched_off_nothing_is_registered(make_rack):
    rack = make_rack(collect=DEFAULT - {"xid"}).turn(3)
    assert "nvmlEventSetCreate" not in rack.driver.state.called()
