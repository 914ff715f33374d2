"""An answer that ends in its midst is no answer, and nobody who asks is stopped by it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from benchmarks.chaos import probes, watching
from benchmarks.chaos.alertmanager import Alert
from benchmarks.chaos.fetching import fetch
from benchmarks.chaos.watching import Watcher

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup"
KILLED = b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\nup 1\ndown"
NO_HTTP = b"up 1\r\n"
NO_TEXT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe"
ERROR = b"HTTP/1.1 503 Away\r\nContent-Length: 2\r\n\r\nno"
ERROR_CUT = b"HTTP/1.1 503 Away\r\nContent-Length: 200\r\n\r\nno"


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """The address of a server that says this, once, and closes."""

    def serve() -> None:
        client, _ = listener.accept()
        with client:
            client.recv(10_000)
            client.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


@pytest.mark.parametrize(("answer", "found"), [(WHOLE, (200, "up")), (ERROR, (503, "no"))])
def test_what_is_answered_whole(answer: bytes, found: tuple[int, str]) -> None:
    with answering(answer) as url:
        assert fetch(url, timeout=5) == found


@pytest.mark.parametrize("answer", [KILLED, NO_HTTP, NO_TEXT, ERROR_CUT])
def test_what_ends_in_its_midst_or_is_no_text_is_as_good_as_a_refusal(answer: bytes) -> None:
    with answering(answer) as url, pytest.raises(OSError, match=r"127\.0\.0\.1"):
        fetch(url, timeout=5)


def test_whoever_does_not_speak_http_has_no_clock() -> None:
    with answering(NO_HTTP) as url:
        assert probes.clock(url) is None


class Program:
    """One that answers this wherever it is asked."""

    name = "a"

    def __init__(self, answer: str) -> None:
        self._answer = answer

    def get(self, path: str, *, timeout: float) -> tuple[int, str]:
        return 200, self._answer if path == "/metrics" else "OK"


@pytest.mark.parametrize(
    ("look", "whole", "cut"),
    [
        (watching.exporter_page, 'gpu_visible{node="n1"} 8\n', 'gpu_visible{node="n1"'),
        (watching.alerter_page, "dutycycle_alerter_leader 1\n", 'dutycycle_alerter_source_up{target="slurm'),
    ],
)
def test_a_page_that_is_cut_is_none(look: Callable[[Program], object], whole: str, cut: str) -> None:
    assert look(Program(whole)).status == 200  # type: ignore[attr-defined]
    assert look(Program(whole + cut)).status == 0  # type: ignore[attr-defined]


def test_what_fires_is_noted_with_when_it_was_asked_and_each_alert_once() -> None:
    alerts = (Alert(9, "idle"), Alert(7, "hung"), Alert(9, "idle"))
    receivers = SimpleNamespace(alertmanager=SimpleNamespace(alerts=lambda: time.sleep(0.2) or alerts))
    watcher = Watcher(SimpleNamespace(receivers=receivers))  # type: ignore[arg-type]
    before = time.time()
    watcher._fire()
    watcher._fire()
    first, second = watcher.firing
    assert first.incidents == second.incidents == (7, 9, 9)
    assert first.took >= 0.2
    assert before <= first.at - first.took <= first.at <= second.at - second.took
    assert watcher.alerts == {("alert of incident 7", "hung"), ("alert of incident 9", "idle")}


def test_an_error_of_the_program_that_is_told_is_one_of_the_watching_also_where_nobody_answers() -> None:
    hook = SimpleNamespace(take_failures=lambda: ["hook: KeyError('incident')"])
    site = SimpleNamespace(
        machines={}, replicas={}, programs=(), supervise=lambda: None, receivers=SimpleNamespace(hook=hook)
    )
    watcher = Watcher(site)  # type: ignore[arg-type]
    watcher._ask()
    assert watcher.failures == ["hook: KeyError('incident')"]
