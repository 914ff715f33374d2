"""A watch's bytes, however they come: whole lines, bounds, and ends that are none."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from dutycycle_alerter.kubernetes import client as clients
from dutycycle_alerter.kubernetes.access import Access
from dutycycle_alerter.kubernetes.client import Client
from dutycycle_alerter.kubernetes.failures import ApiError, Failure
from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from tests.alerter import raw_http
from tests.alerter.kubernetes.watched import kubeconfig

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def sending(*parts: bytes | float) -> raw_http.Behaviour:
    """Bytes one after the other, a number waits so many seconds; then the connection ends."""

    def behave(connection: socket.socket, over: threading.Event) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            if isinstance(part, bytes):
                connection.sendall(part)
            else:
                over.wait(part)

    return behave


class Watched:
    """The lines of one watch, and its failure."""

    def __init__(
        self, directory: Path, behave: raw_http.Behaviour, silence: float = 5.0, longest: float = 60.0
    ) -> None:
        self.lines: list[bytes] = []
        self.failure: Failure | None = None
        self.error = ""
        with raw_http.server(behave, "") as url:
            access = Access(KubernetesCluster(kubeconfig=kubeconfig(directory, url)))
            try:
                stream = Client(access, 5.0).watch("/api/v1/pods", {"watch": "true"}, silence, longest)
                for line in stream.lines():
                    self.lines.append(line)
            except ApiError as error:
                self.failure, self.error = error.failure, str(error)
            access.close()


@pytest.mark.parametrize(
    ("parts", "lines", "failure"),
    [
        pytest.param((CHUNKED, chunk(b"one\n"), chunk(b"two\n"), END), [b"one", b"two"], None, id="a chunk a line"),
        pytest.param((CHUNKED, chunk(b"one\ntwo\n"), END), [b"one", b"two"], None, id="two in one"),
        pytest.param(
            (CHUNKED, chunk(b"on"), 0.05, chunk(b"e\ntw"), chunk(b"o\n"), END), [b"one", b"two"], None, id="torn"
        ),
        pytest.param((CHUNKED, *(chunk(b"%c" % letter) for letter in b"one\n"), END), [b"one"], None, id="by bytes"),
        pytest.param(
            (CHUNKED, b"4\r\non", 0.05, b"e\n\r\n0\r\n\r\n"), [b"one"], None, id="half a chunk, then the rest"
        ),
        pytest.param((PLAIN, b"one\ntwo\n"), [b"one", b"two"], None, id="without a length"),
        pytest.param((CHUNKED, END), [], None, id="nothing"),
        pytest.param((CHUNKED, chunk(b"one\ntw"), END), [b"one"], Failure.CUT, id="a proper end within a line"),
        pytest.param((PLAIN, b"one\ntw"), [b"one"], Failure.CUT, id="an end within a line"),
        pytest.param((CHUNKED, chunk(b"one\n")), [b"one"], Failure.CUT, id="no end"),
        pytest.param(
            (CHUNKED, chunk(b"one\n"), b"ff\r\ntwo\n"), [b"one", b"two"], Failure.CUT, id="an end within a chunk"
        ),
        pytest.param((CHUNKED, chunk(b"one\n"), b"zz\r\nnonsense"), [b"one"], Failure.CUT, id="no chunk"),
    ],
)
def test_lines(tmp_path: Path, parts: tuple[bytes | float, ...], lines: list[bytes], failure: Failure | None) -> None:
    found = Watched(tmp_path, sending(*parts))
    assert (found.lines, found.failure) == (lines, failure), found.error


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not gathered for ever."""
    monkeypatch.setattr(clients, "LONGEST_LINE", 2**20)
    found = Watched(tmp_path, sending(CHUNKED, chunk(b"one\n"), *(chunk(b"x" * 65536) for _ in range(400)), 60.0))
    assert (found.lines, found.failure) == ([b"one"], Failure.GARBAGE)
    assert "a line is longer than 1 MiB" in found.error


@pytest.mark.parametrize(
    "slow",
    [
        pytest.param([60.0], id="nothing"),
        pytest.param([b"ffff\r\n", *[0.1, b"x"] * 600], id="bytes of a chunk"),
        pytest.param([0.1, chunk(b"x")] * 600, id="chunks of a line"),
    ],
)
def test_what_comes_too_slowly_is_silence(tmp_path: Path, slow: list[bytes | float]) -> None:
    """A socket's time-out alone begins anew with every byte."""
    found = Watched(tmp_path, sending(CHUNKED, chunk(b"one\n"), *slow), 0.4)
    assert (found.lines, found.failure) == ([b"one"], Failure.SILENT)


def test_a_watch_that_never_ends_is_cut_off(tmp_path: Path) -> None:
    """Also one whose length of a chunk never ends, where no line is waited for."""
    digits: list[bytes | float] = [b"0", 0.05]
    found = Watched(tmp_path, sending(CHUNKED, *digits * 1200), 5.0, 0.5)
    assert (found.lines, found.failure) == ([], Failure.CUT)


def test_it_can_be_cut_from_outside(tmp_path: Path) -> None:
    def behave(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(CHUNKED + chunk(b"one\n"))
        over.wait(60)

    with raw_http.server(behave, "") as url:
        access = Access(KubernetesCluster(kubeconfig=kubeconfig(tmp_path, url)))
        stream = Client(access, 5.0).watch("/api/v1/pods", {}, 60.0, 60.0)
        lines = stream.lines()
        assert next(lines) == b"one"
        stream.cut()
        with pytest.raises(ApiError):
            next(lines)
        stream.cut()
        access.close()
