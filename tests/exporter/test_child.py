"""The NVML child as a process: what it has to say is said before what may hang, and it ends when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pynvml
import pytest

from dutycycle_exporter.cli import read_settings
from dutycycle_exporter.daemon import child_command
from dutycycle_exporter.model import Asking, Returned, Snapshot, Unavailable, Xid
from dutycycle_exporter.pipe import PipeClosedError, receive
from tests.exporter.daemon import eventually

PATIENCE = 60.0
INTERVAL = 0.1


class Child:
    """A child on the double's driver, and the messages that it sends."""

    def __init__(self, driver, *, interval=INTERVAL, time_scale=1, **options):
        self._pipe, write_end = os.pipe()
        command = [sys.executable, "-P", "-m", "dutycycle_exporter.child", f"--fd={write_end}"]
        self.process = subprocess.Popen(
            [*command, f"--interval={interval}", f"--time-scale={time_scale}"],
            pass_fds=[write_end],
            env={**os.environ, **driver.environment},
            **options,
        )
        os.close(write_end)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self._pipe)

    def receive(self):
        return receive(self._pipe, within=PATIENCE)

    def until(self, kind):
        """The first message of a kind."""
        while not isinstance(message := self.receive(), kind):
            pass
        return message

    def rest(self):
        """All messages to the end."""
        messages = []
        while True:
            try:
                messages.append(self.receive())
            except PipeClosedError:
                return messages


@pytest.fixture
def driver(nvml_driver):
    driver = nvml_driver()
    for _ in range(2):
        driver.add_gpu()
    return driver.start()


def registered(driver):
    """Wait until XIDs of both GPUs are waited for."""
    eventually(lambda: driver.state.calls("nvmlDeviceRegisterEvents") == 2)
    waits = driver.state.calls("nvmlEventSetWait")
    eventually(lambda: driver.state.calls("nvmlEventSetWait") > waits)


def test_an_xid_goes_out_while_the_turn_hangs(driver):
    with Child(driver) as child:
        child.until(Snapshot)
        registered(driver)
        driver.hang("nvmlDeviceGetFieldValues", gpu=1)
        eventually(lambda: driver.state.hung("nvmlDeviceGetFieldValues"))
        driver.xid(1, 119)
        xid = child.until(Xid)
        assert (xid.gpu_uuid, xid.code) == (driver.gpus[1].uuid, 119)


@pytest.mark.parametrize("call", ["nvmlGpmSampleFree", "nvmlEventSetFree", "nvmlShutdown"])
def test_why_it_ends_is_said_before_it_closes_what_may_hang(driver, call):
    """With a GPU off the bus each of these may never return."""
    with Child(driver) as child:
        child.until(Snapshot)
        driver.hang(call)
        driver.fail("nvmlDeviceGetUtilizationRates", pynvml.NVML_ERROR_DRIVER_NOT_LOADED, gpu=1)
        assert child.until(Unavailable).reason == "driver_not_loaded"


@pytest.fixture
def driver_without_samples(driver):
    driver.fail("nvmlDeviceGetSamples", pynvml.NVML_ERROR_NOT_SUPPORTED)
    return driver


def test_child_polls_gpus_without_a_sample_buffer_between_two_snapshots(driver_without_samples):
    """A snapshot has the time since the one before in several pieces; a reading alone gives one piece."""
    with Child(driver_without_samples, interval=2, time_scale=20) as child:
        child.until(Snapshot)
        second = child.until(Snapshot)
        for gpu in second.gpus:
            assert len(gpu.spans) > 3


def test_child_names_the_gpu_before_a_poll_that_hangs(driver_without_samples):
    driver = driver_without_samples
    with Child(driver, interval=10 * PATIENCE, time_scale=20) as child:
        child.until(Snapshot)
        child.until(Returned)
        driver.hang("nvmlDeviceGetUtilizationRates", gpu=1)
        eventually(lambda: driver.state.hung("nvmlDeviceGetUtilizationRates"))
        child.process.kill()
        messages = child.rest()
    assert messages[-1] == Asking((1, 2), 1)
    assert not [message for message in messages if isinstance(message, Snapshot)]


def test_sigterm_ends_it_between_two_turns(driver):
    with Child(driver) as child:
        child.until(Snapshot)
        child.process.send_signal(signal.SIGTERM)
        child.rest()
        assert child.process.wait(PATIENCE) == 0
        assert driver.state.calls("nvmlShutdown") == 1


def test_one_that_was_stopped_past_its_turn_goes_on_and_still_ends_when_it_is_told_to(driver):
    """As a debugger, a frozen cgroup and a machine that sleeps do it: what waits for a signal is woken by that."""
    with Child(driver) as child:
        for _ in range(5):
            child.until(Snapshot)
            child.process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.process.pid, os.WSTOPPED)
            time.sleep(3 * INTERVAL)
            child.process.send_signal(signal.SIGCONT)
        child.until(Snapshot)
        child.process.send_signal(signal.SIGTERM)
        child.rest()
        assert child.process.wait(PATIENCE) == 0


def test_nothing_is_imported_from_the_directory_that_the_exporter_runs_in(tmp_path):
    """Who may write there would run code as the exporter."""
    (tmp_path / "click.py").write_text("raise SystemExit('imported from here')\n")
    command = child_command(read_settings([]), 0.0)
    done = subprocess.run([*command, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
