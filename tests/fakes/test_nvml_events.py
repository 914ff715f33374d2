"""XID events: told once to every set that had registered before, and lost to those that had not."""

import json
import threading

import pytest

from tests.fakes.nvml import RTX_3080_TI

from .test_nvml_control import client, wait_for

XID = 8
NONE = 2**32 - 1


@pytest.fixture
def watched(machine):
    """A machine with two GPUs; `watch` makes an event set that has registered for the given ones."""
    m = machine()
    for _ in range(2):
        m.driver.add_gpu()
    sets = []

    def watch(*gpus):
        sets.append(m.nvml.nvmlEventSetCreate())
        for gpu in gpus:
            m.nvml.nvmlDeviceRegisterEvents(m.handle(gpu), XID, sets[-1])
        return sets[-1]

    m.watch = watch
    yield m
    for event_set in sets:
        m.nvml.nvmlEventSetFree(event_set)


def events(m, event_set):
    """(UUID, code) of all that wait in a set."""
    found = []
    while True:
        try:
            data = m.nvml.nvmlEventSetWait_v2(event_set, 0)
        except m.nvml.NVMLError_Timeout:
            return found
        assert (data.eventType, data.gpuInstanceId, data.computeInstanceId) == (XID, NONE, NONE)
        found.append((m.nvml.nvmlDeviceGetUUID(data.device), data.eventData))


def test_xids_are_told_in_their_order_once(watched):
    m = watched
    first, second = (gpu.uuid for gpu in m.driver.gpus)
    event_set = m.watch(0, 1)
    m.driver.xid(1, 79)
    m.driver.xid(0, 31)
    m.driver.xid(1, 48)
    assert events(m, event_set) == [(second, 79), (first, 31), (second, 48)]
    assert events(m, event_set) == []


def test_what_happened_before_registration_is_lost(watched):
    m = watched
    m.driver.xid(0, 13)
    event_set = m.watch(0)
    m.driver.xid(1, 14)
    m.nvml.nvmlDeviceRegisterEvents(m.handle(1), XID, event_set)
    m.driver.xid(1, 94)
    assert [code for _, code in events(m, event_set)] == [94]


def test_registering_again_forgets_nothing(watched):
    m = watched
    event_set = m.watch(0)
    m.driver.xid(0, 13)
    m.nvml.nvmlDeviceRegisterEvents(m.handle(0), XID, event_set)
    assert [code for _, code in events(m, event_set)] == [13]


def test_every_set_sees_every_event_of_the_gpus_it_registered_for(watched):
    m = watched
    both, one = m.watch(0, 1), m.watch(1)
    for gpu, code in ((0, 1), (1, 2)):
        m.driver.xid(gpu, code)
    assert [code for _, code in events(m, both)] == [1, 2]
    assert [code for _, code in events(m, one)] == [2]


def test_a_wait_ends_with_the_event_or_with_its_timeout(watched):
    m = watched
    event_set = m.watch(0)
    with pytest.raises(m.nvml.NVMLError_Timeout):
        m.nvml.nvmlEventSetWait_v2(event_set, 30)
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(m.nvml.nvmlEventSetWait_v2(event_set, 60_000).eventData))
    waiting.start()
    wait_for(lambda: m.driver.state.calls("nvmlEventSetWait") >= 2)
    m.driver.xid(0, 62)
    waiting.join()
    assert answers == [62]


def test_a_wait_ends_when_the_library_is_shut_down(watched):
    m = watched
    event_set, errors = m.watch(0), []

    def wait():
        try:
            m.nvml.nvmlEventSetWait_v2(event_set, 60_000)
        except m.nvml.NVMLError as error:
            errors.append(error.value)

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_for(lambda: m.driver.state.calls("nvmlEventSetWait") == 1)
    m.nvml.nvmlShutdown()
    waiting.join()
    m.nvml.nvmlInit()
    assert errors == [m.nvml.NVML_ERROR_UNINITIALIZED]


def test_a_flood_keeps_the_newest_events(watched):
    m = watched
    event_set = m.watch(0)
    for code in range(300):
        m.driver.xid(0, code)
    assert [code for _, code in events(m, event_set)] == list(range(44, 300))


def test_a_lost_gpu_is_complained_about_after_its_last_event(watched):
    m = watched
    event_set = m.watch(0, 1)
    m.driver.xid(0, 79)
    m.driver.lose(0)
    assert m.nvml.nvmlEventSetWait_v2(event_set, 1000).eventData == 79
    with pytest.raises(m.nvml.NVMLError_GpuIsLost):
        m.nvml.nvmlEventSetWait_v2(event_set, 1000)
    m.driver.xid(1, 31)
    assert m.nvml.nvmlEventSetWait_v2(event_set, 1000).eventData == 31
    m.driver.restore(0)
    assert events(m, event_set) == []


def test_only_gpus_with_events_take_registrations(watched):
    m = watched
    m.driver.add_gpu(RTX_3080_TI)
    m.driver.add_gpu(RTX_3080_TI, events=True)
    event_set = m.watch(3)
    types = [m.nvml.nvmlDeviceGetSupportedEventTypes(m.handle(gpu)) & XID for gpu in (0, 2, 3)]
    assert types == [XID, 0, XID]
    with pytest.raises(m.nvml.NVMLError_NotSupported):
        m.nvml.nvmlDeviceRegisterEvents(m.handle(2), XID, event_set)
    with pytest.raises(m.nvml.NVMLError_NotSupported):
        m.nvml.nvmlDeviceRegisterEvents(m.handle(0), XID | 1 << 40, event_set)
    m.driver.xid(2, 13)
    assert events(m, event_set) == []


def test_an_instance_s_event_names_it(watched):
    m = watched
    m.driver.set_mig(0, ["1g.10gb", "1g.10gb"])
    event_set = m.watch(0)
    m.driver.xid(0, 43, instance=1)
    data = m.nvml.nvmlEventSetWait_v2(event_set, 0)
    expected = m.nvml.nvmlDeviceGetGpuInstanceId(m.instance(1))
    assert (data.eventData, data.gpuInstanceId, data.computeInstanceId) == (43, expected, 0)


def test_functions_of_events_fail_and_hang_as_others_do(watched):
    m = watched
    event_set = m.watch(0)
    m.driver.fail("nvmlEventSetWait_v2", m.nvml.NVML_ERROR_UNKNOWN, times=1)
    with pytest.raises(m.nvml.NVMLError_Unknown):
        m.nvml.nvmlEventSetWait_v2(event_set, 0)
    m.driver.fail("nvmlDeviceRegisterEvents", m.nvml.NVML_ERROR_NO_PERMISSION, gpu=1)
    with pytest.raises(m.nvml.NVMLError_NoPermission):
        m.watch(0, 1)
    m.driver.fail("nvmlEventSetCreate", m.nvml.NVML_ERROR_MEMORY)
    with pytest.raises(m.nvml.NVMLError_Memory):
        m.watch()


def test_a_wait_that_hangs_outlasts_its_timeout_and_can_be_killed(watched):
    driver = watched.driver
    driver.hang("nvmlEventSetWait")
    with client(driver, "nvmlEventSetWait_v2(nvmlEventSetCreate(), 1).eventData") as process:
        wait_for(lambda: driver.state.hung("nvmlEventSetWait") == 1)
        process.kill()
        assert process.wait(timeout=60) == -9
    driver.heal("nvmlEventSetWait")
    with client(driver, "nvmlEventSetWait_v2(nvmlEventSetCreate(), 1).eventData") as process:
        answer, _ = process.communicate(timeout=60)
    assert json.loads(answer) == {"error": 10}
