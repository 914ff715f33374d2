"""HTTP: no client keeps others from being served, whatever it sends or leaves, and no crowd of them."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from dutycycle_exporter.web import app
from dutycycle_exporter.web import server as web
from dutycycle_exporter.web.app import _patience
from tests.exporter.daemon import Daemon, eventually
from tests.exporter.held_page import get


def test_however_many_scrape_one_collection_runs_at_a_time(server, collector):
    collector.gate.clear()
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(get(server, "/metrics")[0])) for _ in range(8)]
    for thread in threads:
        thread.start()
    collector.gate.set()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 8
    assert collector.most == 1


def crowd(server, clients, path, go_on):
    """What so many clients at once are answered, and how many threads there were at most; 0 for a connection that was
    closed. `go_on` is set when all have their answers but those who may wait for it.
    """
    statuses, most = [], 0

    def ask():
        try:
            statuses.append(get(server, path)[0])
        except OSError:
            statuses.append(0)

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        most = max(most, sum("process_request_thread" in one.name for one in threading.enumerate()))
        if len(statuses) >= clients - app._MOST_WAITING:
            go_on.set()
        time.sleep(0.001)
    return Counter(statuses), most


def test_however_many_scrape_a_page_that_takes_long_few_wait_for_it_and_the_others_are_told_so(
    server, scrapes, collector
):
    """Threads that wait are memory, and places that a container has few of."""
    collector.gate.clear()
    statuses, threads = crowd(server, 200, "/metrics", collector.gate)
    assert threads <= web._MOST_THREADS
    assert statuses[200] <= app._MOST_WAITING
    assert statuses[503] > 0
    assert scrapes.refused >= statuses[503], "some of those who had to go were told so in vain"
    assert statuses.total() == statuses[200] + statuses[503] + statuses[0]
    eventually(lambda: get(server, "/metrics")[0] == 200)


def test_a_crowd_that_is_answered_at_once_has_no_more_threads_than_there_may_be(server):
    statuses, threads = crowd(server, 200, "/-/ready", threading.Event())
    assert threads <= web._MOST_THREADS
    assert statuses[200] > 0
    assert get(server, "/-/ready")[0] == 200


def test_a_connection_for_which_the_system_has_no_thread_is_closed_and_takes_no_place(server, monkeypatch, caplog):
    start = threading.Thread.start

    def refuse(thread):
        if "process_request_thread" in thread.name:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(2 * web._MOST_THREADS):
            with pytest.raises(OSError):  # noqa: PT011 - reset, or closed before it was read
                get(server, "/-/ready")
    assert "can't start new thread" in caplog.text
    assert get(server, "/-/ready")[0] == 200
    eventually(lambda: not server._requests)


def test_where_those_who_had_to_go_do_not_a_new_one_is_turned_away_and_not_given_a_thread(server, monkeypatch):
    monkeypatch.setattr(web, "_ROOM_WITHIN", 0.05)
    places = [server._places.acquire(blocking=False) for _ in range(web._MOST_THREADS)]
    assert all(places)
    with pytest.raises(OSError):  # noqa: PT011 - reset, or closed before it was read
        get(server, "/-/ready")
    for _ in places:
        server._places.release()
    assert get(server, "/-/ready")[0] == 200


def test_a_scrape_that_would_wait_for_longer_than_its_scraper_is_told_so_and_counted(server, scrapes, collector):
    """Its place is free then for the next, and the log of Prometheus says why there was nothing."""
    collector.gate.clear()
    first = threading.Thread(target=get, args=(server, "/metrics"))
    first.start()
    eventually(lambda: collector.running)
    status, _, body = get(server, "/metrics", X_Prometheus_Scrape_Timeout_Seconds="0.2")
    assert (status, body) == (503, b"another collection took the whole scrape timeout\n")
    assert scrapes.refused == 1
    collector.gate.set()
    first.join()
    assert get(server, "/metrics", X_Prometheus_Scrape_Timeout_Seconds="0.2")[0] == 200
    assert (scrapes.refused, collector.most) == (1, 1)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("10", 9.5),
        ("10.000000", 9.5),
        ("0.6", 0.3),
        ("1e3", 999.5),
        *((text, None) for text in ("", "soon", "nan", "inf", "-1", "0", "1e300", "1" * 5000)),
    ],
)
def test_a_scrape_waits_for_less_than_prometheus_says_and_without_a_number_as_long_as_it_takes(header, seconds):
    assert _patience(header) == pytest.approx(seconds)


def test_a_client_that_says_nothing_does_not_keep_others_waiting(server):
    with socket.create_connection(("127.0.0.1", server.server_port)):
        assert get(server, "/metrics")[0] == 200


@pytest.mark.parametrize("request_bytes", [b"", b"GET /metrics HTTP/1.1\r\nX: ", b"GET /metrics HTTP/1.1\r\n\r\n"])
def test_however_many_clients_are_slow_a_scrape_is_answered(server, collector, request_bytes):
    """Those that do not send, that send slowly, and that do not take their answer."""
    collector.help = "x" * 2**22
    with ExitStack() as stack:
        for _ in range(3 * web._MOST_REQUESTS):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.server_port))
            client.sendall(request_bytes)
        # Of those who ask all at once some are turned away, as who comes at the same time may be.
        eventually(lambda: get(server, "/metrics")[0] == 200)
        for _ in range(3):
            status, _, body = get(server, "/metrics")
            assert (status, len(body) > 2**22) == (200, True)
        assert len(server._requests) <= web._MOST_REQUESTS


def test_for_a_request_that_is_cut_short_no_page_is_made(server, collector):
    """As those of clients that had to make room are."""
    for request in (b"", b"GET /metrics HTTP/1.1\r\nX: ", b"GET /metrics HTTP/1.1\r\nX: y\r\n"):
        with socket.create_connection(("127.0.0.1", server.server_port)) as client:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
    assert collector.collections == 0
    with socket.create_connection(("127.0.0.1", server.server_port)) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(15) == b"HTTP/1.0 200 OK"


def test_a_client_that_does_not_take_its_answer_is_cut_off_without_a_word(server, collector, monkeypatch, capfd):
    monkeypatch.setattr(web._Handler, "timeout", 2.0)
    collector.help = "x" * 2**23
    with ExitStack() as stack:

        def ask():
            """Again where the request itself took too long, as on a machine that stalls."""
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.server_port))
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            until = time.monotonic() + 5
            while not collector.collections and time.monotonic() < until:
                time.sleep(0.01)
            return collector.collections

        eventually(ask)
        eventually(lambda: not server._requests)
    assert capfd.readouterr().err == ""


def test_a_client_that_sends_a_byte_now_and_then_is_cut_off(server, monkeypatch):
    monkeypatch.setattr(web._Handler, "timeout", 0.5)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        connection.settimeout(0.05)
        for _ in range(2000):
            try:
                connection.sendall(b"x")
                if connection.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("it may go on for ever")


@pytest.mark.parametrize(
    ("size", "answered"),
    [(20_000, True), (web._LARGEST_REQUEST, True), (web._LARGEST_REQUEST + 1, False), (6 * 2**20, False)],
)
@pytest.mark.parametrize("lines", [2, 99], ids=["of few lines", "of many lines"])
def test_a_request_is_read_up_to_a_size_and_one_that_is_larger_has_no_answer(server, collector, size, answered, lines):
    start, end = b"GET /metrics HTTP/1.1\r\n", b"\r\n"
    each, rest = divmod(size - len(start) - len(end), lines)
    header = b"X: ".ljust(each - 2, b"a") + b"\r\n"
    request = start + header * (lines - 1) + header[:-2] + b"a" * rest + b"\r\n" + end
    assert len(request) == size
    for _ in range(2):
        # Another connection may send as much again.
        answer = b""
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as client, suppress(OSError):
            client.sendall(request)
            answer = client.recv(15)
        assert answer == (b"HTTP/1.0 200 OK" if answered else b"")
    assert collector.collections == 2 * answered


def test_what_strangers_send_takes_no_memory(tmp_path):
    """The standard library's parser makes 100 MB of these."""
    head = b"GET /metrics HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 65_000) for n in range(99)) + b"\r\n"
    with Daemon(tmp_path, {}, "--no-kubernetes") as daemon:

        def most():
            status = Path(f"/proc/{daemon.process.pid}/status").read_text()
            return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024

        def send(_):
            with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as client, suppress(OSError):
                client.sendall(head)
                client.recv(1)

        assert daemon.get("/metrics")[0] == 200
        before = most()
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(send, range(24)))
        assert daemon.get("/metrics")[0] == 200
        assert most() - before < 16 * 2**20


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x00\xff\xfe\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"".join(b"h%d: v\r\n" % n for n in range(200)) + b"\r\n",
        b"GET /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET /%zz%ff?name[]=%ff%00 HTTP/1.0\r\n\r\n",
    ],
    ids=["binary", "no path", "version", "long path", "many headers", "length", "escapes"],
)
def test_hostile_requests_are_answered_or_dropped_and_the_server_goes_on(server, request_bytes, capfd):
    answer = b""
    with (
        socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as connection,
        # One who is let go before all of the request was read may be told so by a reset, at any step.
        suppress(ConnectionError),
    ):
        connection.sendall(request_bytes)
        with suppress(OSError):  # what is said of the end of a connection that is no more
            connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(65536):
            answer += piece
    assert b"Traceback" not in answer
    assert get(server, "/metrics")[0] == 200
    assert "Traceback" not in capfd.readouterr().err
