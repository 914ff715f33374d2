"""The exporters beside `dutycycle up`, which are waited for: those that answer, end, hang, or are no longer wanted."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from dutycycle_alerter.cli import exporters
from dutycycle_alerter.cli.exporters import Exporter, free_ports
from dutycycle_alerter.cli.stopping import Stop, stop_signals
from dutycycle_alerter.errors import AlerterError

ANSWERS = """
import http.server, sys
port = int(sys.argv[1].rpartition(":")[2])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
HANGS = "import time; time.sleep(600)"

Begin = Callable[[str], Exporter]


@pytest.fixture
def stop() -> Iterator[Stop]:
    with stop_signals() as stop:
        yield stop


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Starts a program in place of the exporter; ended with the test."""
    with ExitStack() as stack:
        yield lambda code: stack.enter_context(Exporter([sys.executable, "-c", code], *free_ports(1)))


def test_several_start_side_by_side_and_each_is_waited_for(begin: Begin, stop: Stop) -> None:
    started = [begin(ANSWERS) for _ in range(3)]
    assert all(one.wait(stop) for one in started)


def test_one_that_ends_is_told_with_its_code(begin: Begin, stop: Stop) -> None:
    with pytest.raises(AlerterError, match=r"ended at once with 5; its message is above"):
        begin("raise SystemExit(5)").wait(stop)


def test_one_that_does_not_answer_is_given_up_and_does_not_outlive_it(
    stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporters, "_START_WITHIN", 0.5)
    [port] = free_ports(1)
    with Exporter([sys.executable, "-c", HANGS], port) as one:
        process = one._process
        with pytest.raises(AlerterError, match=rf"did not answer on port {port} within 0\.5 s"):
            one.wait(stop)
    assert process is not None
    assert process.returncode is not None


def test_who_is_asked_to_stop_does_not_wait_for_it(begin: Begin, stop: Stop) -> None:
    one = begin(HANGS)
    asked = threading.Timer(0.3, signal.raise_signal, [signal.SIGTERM])
    asked.start()
    began = time.monotonic()
    assert not one.wait(stop)
    assert time.monotonic() - began < exporters._START_WITHIN / 2
    asked.join()


def test_free_ports_are_different_and_the_preferred_one_is_used_where_it_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        found = free_ports(50, taken)
        assert len(set(found)) == 50
        assert taken not in found
    assert free_ports(2, taken)[0] == taken
