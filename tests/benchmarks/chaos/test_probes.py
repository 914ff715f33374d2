"""A probe tells what was done from what was not, whoever says that it was."""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pynvml
import pytest

from benchmarks.chaos import probes
from benchmarks.chaos.certificates import Authority
from benchmarks.chaos.clocks import SteppedClock, build
from tests.fakes.nvml import Driver, Libraries
from tests.required import lacking


@contextmanager
def serving(context: ssl.SSLContext | None = None, ahead: float = 0.0) -> Iterator[int]:
    """The port of a web server whose clock is `ahead`."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string((timestamp or time.time()) + ahead)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def test_a_port_at_which_nobody_listens_refuses(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        assert not probes.refused(address)
    assert probes.refused(address)
    assert probes.refused(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        assert probes.refused(tmp_path / "socket")
        listener.listen(1)
        assert not probes.refused(tmp_path / "socket")


def test_a_process_that_was_stopped_and_goes_on() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not probes.stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 60
        while not probes.stopped(process.pid):
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGCONT)
        while probes.stopped(process.pid):
            assert time.monotonic() < deadline
    finally:
        process.kill()
        process.communicate()
    assert not probes.stopped(process.pid)


def test_a_certificate_that_has_expired(tmp_path: Path) -> None:
    for program in ("openssl", "gcc"):
        if shutil.which(program) is None:
            lacking(program)
    with SteppedClock(tmp_path / "clock", build(tmp_path)) as clock:
        authority = Authority(tmp_path / "certificates", clock)
        certificate = authority.certificate("server")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate.pair)
        with serving(context) as port:
            assert probes.expired(port, authority.chain) is False
            certificate.replace(context, expired=True)
            assert probes.expired(port, authority.chain) is True
            certificate.replace(context, expired=False)
            assert probes.expired(port, authority.chain) is False
    assert probes.expired(port, authority.chain) is None


def test_the_clock_of_whoever_serves() -> None:
    with serving(ahead=-300.0) as port:
        assert probes.clock(f"http://127.0.0.1:{port}/") == pytest.approx(time.time() - 300, abs=3)
    assert probes.clock(f"http://127.0.0.1:{port}/") is None


@pytest.mark.usefixtures("patient_probes")
def test_what_a_program_that_has_just_begun_sees_of_nvml(tmp_path: Path, nvml_libraries: Libraries) -> None:
    def errors() -> list[int]:
        return [gpu["error"] for gpu in probes.nvml(driver.environment)["gpus"]]

    with Driver(tmp_path / "nvml", nvml_libraries) as driver:
        driver.add_gpu()
        driver.add_gpu()
        driver.step()
        assert errors() == [0, 0]
        driver.lose(0)
        assert errors() == [pynvml.NVML_ERROR_GPU_IS_LOST, 0]
        driver.vanish(0)
        assert errors() == [0]
        driver.restore(0)
        driver.set_mig(1, ["1g.10gb"])
        assert [gpu["mig"] for gpu in probes.nvml(driver.environment)["gpus"]] == [False, True]
        driver.fail("nvmlInit", pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
        assert probes.nvml(driver.environment) == {"error": pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "gpus": []}
