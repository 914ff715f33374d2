"""A process's time of day can be stepped while it runs; its other clocks run on."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.chaos.certificates import Authority
from benchmarks.chaos.clocks import SteppedClock, build
from tests.required import lacking

_SAYS = """
import sys, time
for _ in sys.stdin:
    print(time.time(), time.clock_gettime(time.CLOCK_REALTIME), time.monotonic(), flush=True)
"""


ROUNDED = 1e-3
"""Seconds by which what is added to a time may be another than what is taken from it."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        lacking("gcc")
    return build(tmp_path_factory.mktemp("clock"))


def test_the_time_of_day_is_stepped_forward_and_back_and_nothing_else(tmp_path: Path, library: Path) -> None:
    with SteppedClock(tmp_path / "clock", library) as clock:
        process = subprocess.Popen(
            [sys.executable, "-c", _SAYS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clock.environment,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        for step in (0.0, 300.5, -600.0):
            clock.step(step)
            since = time.time(), time.monotonic()
            process.stdin.write("\n")
            process.stdin.flush()
            said = [float(word) for word in process.stdout.readline().split()]
            until = time.time(), time.monotonic()
            for day in said[:2]:
                assert since[0] - ROUNDED <= day - clock.offset <= until[0] + ROUNDED
            assert since[1] <= said[2] <= until[1]
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def test_a_certificate_expires_and_is_renewed_in_place(tmp_path: Path, library: Path) -> None:
    if shutil.which("openssl") is None:
        lacking("openssl")

    def valid() -> bool:
        command = ["openssl", "verify", "-CAfile", str(authority.chain), str(certificate.chain)]
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0

    with SteppedClock(tmp_path / "clock", library) as clock:
        authority = Authority(tmp_path / "certificates", clock)
        certificate = authority.certificate("node")
        assert valid()
        certificate.expire()
        assert not valid()
        certificate.renew()
        assert valid()
