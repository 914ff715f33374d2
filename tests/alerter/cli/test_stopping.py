"""However often and whenever it is asked to stop, the alerter stops."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dutycycle_alerter.cli.stopping import stop_signals

FILES = Path("/proc/self/fd")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stays_asked(number: signal.Signals) -> None:
    with stop_signals() as stop:
        assert not stop.wait(0)
        signal.raise_signal(number)
        assert stop.wait()
        assert stop.wait(0)


def test_other_signals_do_not_ask() -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with stop_signals() as stop:
            signal.raise_signal(signal.SIGUSR1)
            assert not stop.wait(0.05)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_that_another_thread_gets_wakes_who_waits() -> None:
    with stop_signals() as stop:
        other = threading.Thread(target=lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM))
        other.start()
        assert stop.wait()
        other.join()


def test_afterwards_signals_are_as_before() -> None:
    def state() -> tuple[object, object, int]:
        return signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT), len(list(FILES.iterdir()))

    before = state()
    with stop_signals():
        pass
    assert state() == before
    assert signal.set_wakeup_fd(-1) == -1


WAITING = """
import os, signal
from dutycycle_alerter.cli.stopping import stop_signals
with stop_signals() as stop:
    print("ready", flush=True)
    while not stop.wait(0.00001):
        pass
    print("asked", flush=True)
    # The end takes a while, and whoever asked asks again and again meanwhile.
    while os.read(0, 1):
        stop.wait()
print("ended")
"""


def test_signals_upon_signals_hold_nothing_up(tmp_path: Path) -> None:
    """Thousands of them, most within the handler of another: none may wait for what the one under it holds."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for _ in range(3000):
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
    try:
        said, _ = process.communicate("x" * 50, timeout=60)
    finally:
        process.kill()
    assert (said, process.returncode) == ("asked\nended\n", 0)
