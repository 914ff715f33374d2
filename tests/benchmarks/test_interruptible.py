"""Programs that start others take them down however they are ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.interruptible import INTERRUPTED

PROGRAM = """
import sys, time
from pathlib import Path
from benchmarks.interruptible import run_until_interrupted

def main():
    try:
        print("working", flush=True)
        time.sleep(60)
    finally:
        print("taken down", flush=True)

sys.exit(run_until_interrupted(main))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_ends_a_program_has_it_take_its_site_down(number: signal.Signals) -> None:
    with ExitStack() as stack:
        running = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=Path(__file__).resolve().parents[2],
            env={**os.environ, "PYTHONPATH": "."},
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(running.wait)
        stack.callback(running.kill)
        assert running.stdout is not None
        assert running.stdout.readline() == "working\n"
        running.send_signal(number)
        rest, _ = running.communicate(timeout=30)
        assert rest == "taken down\n"
        assert running.returncode == INTERRUPTED
