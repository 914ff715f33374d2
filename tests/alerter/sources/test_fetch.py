"""Fetching a page from servers that do everything wrong, over real sockets: an error each time, and soon.

No test measures time. A server that would never end holds a test up until pytest's own limit if the fetch does too.
"""

import gzip
import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.sources import fetch
from dutycycle_alerter.sources.fetch import Fetcher
from tests.alerter.raw_http import OK, Behaviour, answering, dripping, endless, hanging, server, whole
from tests.ports import free_port

IMPATIENT = 0.5
PATIENT = 60.0


@contextmanager
def fetcher(timeout: float = PATIENT) -> Iterator[Fetcher]:
    made = Fetcher(timeout)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(
    "answer",
    [
        whole(b"up 1\n"),
        OK + b"\r\nup 1\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nup \r\n2\r\n1\n\r\n0\r\n\r\n",
        whole(gzip.compress(b"up 1\n"), extra=b"Content-Encoding: gzip\r\n"),
        b"HTTP/1.0 200 OK\r\n\r\nup 1\n",
    ],
    ids=["length", "until closed", "chunked", "gzip", "HTTP/1.0"],
)
def test_the_body_as_text_however_it_is_framed(answer: bytes) -> None:
    with server(answering(answer)) as url, fetcher() as source:
        assert source.get(url) == "up 1\n"


def test_an_empty_body_is_an_empty_text() -> None:
    with server(answering(whole(b""))) as url, fetcher() as source:
        assert source.get(url) == ""


@pytest.mark.parametrize(
    "behave",
    [
        hanging(b""),
        hanging(b"HTTP/1.1 200"),
        hanging(whole(b"up 1\n")[:-2]),
        hanging(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nup"),
        dripping(b"HTTP/1.1 200 OK\r\nX: "),
        dripping(b""),
        dripping(OK, b"X-A: b\r\n"),
        dripping(OK + b"\r\n"),
        dripping(OK + b"Content-Length: 60000000\r\n\r\n"),
        dripping(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        dripping(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
        dripping(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"T: x\r\n"),
        dripping(OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"x")[:10], b"\x00"),
        dripping(b"HTTP/1.1 500 No\r\n\r\n"),
    ],
    ids=[
        "silence",
        "silence within the status line",
        "silence within the body",
        "silence within a chunk",
        "dripping header",
        "dripping status line",
        "dripping headers",
        "dripping body until closed",
        "dripping body",
        "dripping chunks",
        "dripping chunk length",
        "dripping trailers",
        "dripping gzip",
        "dripping error page",
    ],
)
def test_a_server_that_never_ends_is_left_at_the_time_out(behave: Behaviour) -> None:
    with server(behave) as url, fetcher(IMPATIENT) as source:
        with pytest.raises(SourceError) as error:
            source.get(url)
        assert url in str(error.value)


@pytest.mark.parametrize(
    ("behave", "why"),
    [
        (answering(), ""),
        (answering(b"\r\n\r\n"), ""),
        (answering(b"SSH-2.0-OpenSSH_9.2\r\n"), ""),
        (answering(b"\x00\x01\x02\xff" * 100), ""),
        (answering(OK + b"Content-Length: 100\r\n\r\nshort"), ""),
        (answering(OK + b"Content-Length: 5\r\nContent-Length: 7\r\n\r\nup 1\n"), ""),
        (answering(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nup"), ""),
        (answering(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nup"), ""),
        (answering(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nup 1\n\r\n"), ""),
        (answering(whole(b"not gzip", extra=b"Content-Encoding: gzip\r\n")), ""),
        (answering(whole(b"up \xff\xfe\n")), "utf-8"),
        (answering(whole(b"", "500 Internal Server Error")), "answered 500"),
        (answering(whole(b"up 1\n", "404 Not Found")), "answered 404"),
        (answering(whole(b"", "204 No Content")), "answered 204"),
        (answering(whole(b"", "302 Found", b"Location: http://127.0.0.1:1/\r\n")), "answered 302"),
        (answering(b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"), "answered 401"),
        (answering(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 500 + b"\r\n"), ""),
        (answering(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n"), ""),
    ],
)
def test_a_broken_answer_is_an_error_that_names_the_url(behave: Behaviour, why: str) -> None:
    with server(behave) as url, fetcher() as source:
        with pytest.raises(SourceError) as error:
            source.get(url)
        assert url in str(error.value)
        assert why in str(error.value)


def test_an_endless_body_is_left_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MAX_BYTES", 2**20)
    with (
        server(endless(b"x" * 65536)) as url,
        fetcher() as source,
        pytest.raises(SourceError, match="larger than 1 MiB"),
    ):
        source.get(url)


def test_a_small_body_that_unpacks_to_a_huge_one_is_left_at_the_same_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MAX_BYTES", 2**20)
    bomb = gzip.compress(b"x" * 2**26)
    with (
        server(answering(whole(bomb, extra=b"Content-Encoding: gzip\r\n"))) as url,
        fetcher() as source,
        pytest.raises(SourceError, match="larger than 1 MiB"),
    ):
        source.get(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/metrics",
        "gpu01:9836",
        "gpu01:9836/metrics",
        "ftp://127.0.0.1/metrics",
        "unix:///run/x",
        "http://",
        "http:///metrics",
        "http://127.0.0.1:99999/metrics",
        "http://127.0.0.1:port/metrics",
        "http://[::1/metrics",
        "http://a\x00b/",
        "http://" + "a" * 300 + ".invalid/",
        "http://..invalid/",
        "http://xn--\u20ac.invalid/",
        "http://nobody.invalid/metrics",
    ],
)
def test_a_url_that_leads_nowhere_is_an_error(url: str) -> None:
    with fetcher(IMPATIENT) as source, pytest.raises(SourceError):
        source.get(url)


def test_a_refused_connection_is_an_error_that_says_so() -> None:
    with fetcher() as source, pytest.raises(SourceError, match="refused"):
        source.get(f"http://127.0.0.1:{free_port()}/metrics")


def test_tls_towards_a_server_without_it_is_an_error() -> None:
    with server(answering(b"HTTP/1.1 400 No\r\n\r\n")) as url, fetcher() as source, pytest.raises(SourceError):
        source.get(url.replace("http:", "https:"))


def test_a_tls_handshake_that_hangs_is_left_at_the_time_out() -> None:
    with server(hanging(b"")) as url, fetcher(IMPATIENT) as source, pytest.raises(SourceError):
        source.get(url.replace("http:", "https:"))


def test_a_tls_handshake_that_drips_is_left_at_the_time_out() -> None:
    record = b"\x16\x03\x03\x40\x00"  # of 16 KiB, which take five minutes at this pace
    with server(dripping(record)) as url, fetcher(IMPATIENT) as source, pytest.raises(SourceError, match="within"):
        source.get(url.replace("http:", "https:"))


def test_a_connection_that_ends_without_a_word_is_tried_once_more() -> None:
    """A server may close a kept connection in the very moment in which it is used again."""
    connections: list[socket.socket] = []

    def behave(connection: socket.socket, over: threading.Event) -> None:
        connections.append(connection)
        if len(connections) == 2:
            connection.sendall(whole(b"up 1\n"))

    with server(behave) as url, fetcher() as source:
        assert source.get(url) == "up 1\n"
    with server(answering()) as url, fetcher() as source, pytest.raises(SourceError):
        source.get(url)


def test_a_server_that_recovers_is_read_again() -> None:
    """Whatever state a failure leaves behind, the next scrape begins afresh."""
    failures = [hanging(whole(b"up 1\n")[:-2]), dripping(OK), answering(b"junk"), answering(OK + b"\r\n\xff")]
    turns = itertools.chain(failures, itertools.repeat(answering(whole(b"up 1\n"))))

    def behave(connection: socket.socket, over: threading.Event) -> None:
        next(turns)(connection, over)

    with server(behave) as url, fetcher(IMPATIENT) as source:
        for _ in failures:
            with pytest.raises(SourceError):
                source.get(url)
        assert "up 1\n" in (patiently(source, url) for _ in range(100))


def patiently(source: Fetcher, url: str) -> str:
    """The answer, or nothing: on a busy machine even a good one may come late."""
    try:
        return source.get(url)
    except SourceError:
        return ""


def test_a_kept_connection_that_the_server_closed_costs_no_scrape() -> None:
    """A connection may be closed between two scrapes: that is no failure."""
    with server(answering(whole(b"up 1\n"))) as url, fetcher() as source:
        for _ in range(5):
            assert source.get(url) == "up 1\n"


def test_many_threads_may_fetch_at_once() -> None:
    with server(answering(whole(b"up 1\n"))) as url, fetcher() as source:
        answers: list[str] = []
        threads = [threading.Thread(target=lambda: answers.append(source.get(url))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == ["up 1\n"] * 8


def test_a_connection_to_each_of_many_hosts_is_kept() -> None:
    """A scrape that connects anew takes longer, and at a hundred nodes leaves a hundred ports in TIME_WAIT."""
    connections: list[socket.socket] = []

    def keep_alive(connection: socket.socket, over: threading.Event) -> None:
        connections.append(connection)
        connection.sendall(OK + b"Content-Length: 2\r\n\r\nok")
        while connection.recv(65536):
            connection.sendall(OK + b"Content-Length: 2\r\n\r\nok")

    with ExitStack() as stack:
        urls = [stack.enter_context(server(keep_alive)) for _ in range(12)]
        made = Fetcher(PATIENT, hosts=len(urls))
        stack.callback(made.close)
        for url in urls * 3:
            assert made.get(url) == "ok"
        assert len(connections) == len(urls)
