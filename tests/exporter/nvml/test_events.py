"""XIDs are told once, of the right GPU; a wait that fails or hangs holds up nothing."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter

import pynvml
import pytest

from dutycycle_exporter.collected import DEFAULT
from dutycycle_exporter.nvml import events
from tests.exporter.daemon import PATIENCE, eventually
from tests.fakes.nvml import RTX_3080_TI


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(events, "_PAUSE", 0.05)
    monkeypatch.setattr(events, "_RETRY", 0.05)


def registered(rack, times=1):
    """When so many GPUs are registered for certain: the wait after it has begun."""
    eventually(lambda: rack.driver.state.calls("nvmlDeviceRegisterEvents") >= times)
    waits = rack.driver.state.calls("nvmlEventSetWait")
    eventually(lambda: rack.driver.state.calls("nvmlEventSetWait") > waits)
    return rack


def xids(rack, many):
    """So many (GPU's UUID, code), from as many turns as it takes."""
    found = []

    def take():
        found.extend((xid.gpu_uuid, xid.code) for xid in rack.turn().snapshot.xids)
        return len(found) >= many

    eventually(take)
    return found


def test_xids_are_told_in_their_order_once_and_of_the_right_gpu(make_rack):
    rack = registered(make_rack(gpus=2).turn(), 2)
    first, second = (gpu.uuid for gpu in rack.driver.gpus)
    rack.driver.xid(1, 79)
    rack.driver.xid(0, 31)
    rack.driver.xid(1, 79)
    assert xids(rack, 3) == [(second, 79), (first, 31), (second, 79)]
    assert rack.turn(2).snapshot.xids == ()


def test_the_time_of_an_xid_is_that_at_which_it_was_reported_by_the_clock_of_the_snapshots(make_rack):
    rack = registered(make_rack().turn())
    before = time.monotonic()
    rack.driver.xid(0, 48)
    waiting = rack.reader._xids._events
    eventually(lambda: waiting)
    assert before <= waiting[0].t <= time.monotonic()
    waiting[0] = dataclasses.replace(waiting[0], t=waiting[0].t - 1000)
    [xid] = rack.turn().snapshot.xids
    assert rack.clock.now - xid.t == pytest.approx(1000, abs=PATIENCE)


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
    eventually(lambda: rack.reader._xids._events)
    assert [(xid.gpu_uuid, xid.code) for xid in rack.turn().snapshot.xids] == [("", 79)]
    assert rack.snapshot.failures == {(call, "gpu_is_lost"): 1}
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


def test_a_library_without_events_ends_the_watch_and_is_no_failure(make_rack):
    absent = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    rack = make_rack(before=lambda driver: driver.fail("nvmlEventSetCreate", absent)).turn()
    eventually(lambda: not rack.reader._xids._thread.is_alive())
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


def test_xids_that_nobody_takes_do_not_pile_up(make_rack, monkeypatch):
    rack = make_rack()
    watch = rack.reader._xids
    for code in range(3 * watch._events.maxlen):
        watch._events.append(events._Event("GPU-x", code, time.monotonic()))
    codes = [xid.code for xid in rack.turn().snapshot.xids]
    assert codes == list(range(2 * watch._events.maxlen, 3 * watch._events.maxlen))


def test_switched_off_nothing_is_registered(make_rack):
    rack = make_rack(collect=DEFAULT - {"xid"}).turn(3)
    assert "nvmlEventSetCreate" not in rack.driver.state.called()
