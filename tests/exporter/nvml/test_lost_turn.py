"""What a turn found is told though NVML turns out to be unusable in it, and before anything that may hang then."""

from __future__ import annotations

import os
import subprocess
import sys

import pynvml
import pytest

from dutycycle_exporter.errors import NvmlUnavailableError
from dutycycle_exporter.model import Asking, Snapshot, Unavailable
from dutycycle_exporter.pipe import receive

GONE = pynvml.NVML_ERROR_DRIVER_NOT_LOADED


def last_words(rack):
    with pytest.raises(NvmlUnavailableError) as caught:
        rack.turn()
    return caught.value.last


def test_the_turn_after_which_a_fresh_child_looks_for_a_lost_gpu_is_told_whole(make_rack):
    rack = make_rack(gpus=2).turn(2)
    rack.driver.lose(1)
    rack.turn(12)
    last = last_words(rack)
    assert [gpu.uuid for gpu in last.gpus] == [rack.driver.gpus[0].uuid]
    assert last.gpus[0].spans
    assert (last.t, last.visible) == (rack.clock.now, 1)


@pytest.mark.parametrize(
    ("call", "where", "read"), [("nvmlDeviceGetUtilizationRates", {"gpu": 1}, [0]), ("nvmlDeviceGetCount", {}, [])]
)
def test_what_was_found_before_the_driver_went_is_told(make_rack, call, where, read):
    rack = make_rack(gpus=2).turn(2)
    rack.reader._xids._failures.append(("nvmlEventSetWait", "unknown"))
    rack.driver.fail(call, GONE, **where)
    last = last_words(rack)
    assert last.failures == {("nvmlEventSetWait", "unknown"): 1}
    assert [gpu.index for gpu in last.gpus] == read


def test_where_nothing_was_found_there_is_nothing_to_tell(make_rack):
    rack = make_rack().turn(2)
    rack.driver.fail("nvmlDeviceGetCount", GONE)
    assert last_words(rack) is None


def test_a_reader_that_never_worked_tells_only_why(make_rack):
    """A snapshot would say that NVML works again, each time that another child is tried."""
    rack = make_rack(gpus=2)
    rack.driver.fail("nvmlDeviceGetUtilizationRates", GONE, gpu=1)
    assert last_words(rack) is None
    assert last_words(rack) is None


def test_the_child_sends_it_before_it_says_that_it_ends(nvml_driver):
    driver = nvml_driver()
    driver.add_gpu()
    driver.add_gpu()
    driver.start()
    read_end, write_end = os.pipe()
    command = [sys.executable, "-m", "dutycycle_exporter.child", f"--fd={write_end}"]
    with subprocess.Popen(
        [*command, "--interval=0.1", "--time-scale=1"], pass_fds=[write_end], env={**os.environ, **driver.environment}
    ) as process:
        os.close(write_end)
        messages = [receive(read_end, within=60)]
        while not isinstance(messages[-1], Snapshot):
            messages.append(receive(read_end, within=60))
        driver.fail("nvmlDeviceGetUtilizationRates", GONE, gpu=1)
        while not isinstance(messages[-1], Unavailable):
            messages.append(receive(read_end, within=60))
        process.wait(60)
    os.close(read_end)
    *_, whole, last, why = [message for message in messages if not isinstance(message, Asking)]
    assert why.reason == "driver_not_loaded"
    assert [len(whole.gpus), [gpu.index for gpu in last.gpus]] == [2, [0]]
