"""The server: where it listens, how it starts and stops."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import urllib3
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.web.app import create_app, create_health_app
from dutycycle_alerter.web.listen import ListenAddress
from dutycycle_alerter.web.server import Server
from tests.alerter.web.doubles import FixedReader
from tests.ports import HEALTH_PATHS

THREADS = 40
"""As many as pages have, if anyio is not told otherwise."""


def app() -> FastAPI:
    reader = FixedReader()
    return create_app(reader, reader)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9837", "127.0.0.1", 9837),
        (":9837", "", 9837),
        ("localhost:0", "localhost", 0),
        ("gpu-login.example.org:80", "gpu-login.example.org", 80),
        ("[::1]:9837", "::1", 9837),
        ("[fe80::1%eth0]:9837", "fe80::1%eth0", 9837),
        (" 127.0.0.1:1 ", "127.0.0.1", 1),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    address = ListenAddress.parse(text)
    assert (address.host, address.port) == (host, port)
    assert ListenAddress.parse(str(address)) == address


@pytest.mark.parametrize(
    "text", ["", "9837", "127.0.0.1", "127.0.0.1:", ":x", ":65536", ":-1", "::1:9837", "[::1]", "a b:1", "http://a:1"]
)
def test_what_is_no_address_is_an_error_that_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:9837"):
        ListenAddress.parse(text)


def test_names_of_an_address() -> None:
    assert ListenAddress("gpu1", 1).names == ("gpu1",)
    assert ListenAddress("", 1).names == (socket.gethostname(),)


def test_names_are_told_without_asking_a_dns_server_that_may_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> str:
        raise AssertionError("the resolver was asked")

    for name in ("getfqdn", "getaddrinfo", "gethostbyaddr", "gethostbyname"):
        monkeypatch.setattr(socket, name, asked)
    assert ListenAddress("", 1).names


def test_port_0_is_a_free_one_known_before_the_start() -> None:
    server = Server(app(), ListenAddress("127.0.0.1", 0))
    assert server.address.port > 0
    assert server.url == f"http://127.0.0.1:{server.address.port}/"
    server.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", ""])
def test_no_part_of_an_answer_waits_for_the_one_before_to_be_acknowledged(host: str) -> None:
    with ListenAddress(host, 0).bind() as bound:
        with socket.create_connection(("127.0.0.1", bound.getsockname()[1]), timeout=60):
            accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_connection_of_a_client_that_vanished_ends() -> None:
    with ListenAddress("127.0.0.1", 0).bind() as bound:
        with socket.create_connection(("127.0.0.1", bound.getsockname()[1]), timeout=60):
            accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_answers_as_soon_as_it_has_started_and_not_after_it_has_stopped() -> None:
    with urllib3.PoolManager(retries=False, timeout=60) as pool:
        with Server(app(), ListenAddress("", 0)) as server:
            assert pool.request("GET", server.url).status == 200
            assert server.url.startswith("http://localhost:")
        pool.clear()
        with pytest.raises(urllib3.exceptions.HTTPError):
            pool.request("GET", server.url)
    assert "web" not in [thread.name for thread in threading.enumerate()]


def test_who_asks_whether_it_lives_waits_for_no_page() -> None:
    """Liveness would restart an alerter whose readers are many, or whose database is slow."""
    served, asked, go = FastAPI(), threading.Semaphore(0), threading.Event()

    @served.get("/slow")
    def slow() -> None:
        asked.release()
        go.wait(60)

    served.mount("/", create_health_app(app()))
    with Server(served, ListenAddress("127.0.0.1", 0)) as server, ThreadPoolExecutor(THREADS) as readers:
        for _ in range(THREADS):
            readers.submit(urllib3.request, "GET", server.url + "slow", timeout=60)
        for _ in range(THREADS):
            assert asked.acquire(timeout=60)
        try:
            assert urllib3.request("GET", server.url + "-/healthy", timeout=10, retries=False).status == 200
        finally:
            go.set()


def test_starts_and_stops_again_and_again_on_one_port() -> None:
    with Server(app(), ListenAddress("127.0.0.1", 0)) as first:
        address = first.address
    for _ in range(3):
        with Server(app(), address) as server:
            assert server.address == address


def test_an_address_that_is_taken_is_an_error_with_a_remedy() -> None:
    with (
        Server(app(), ListenAddress("127.0.0.1", 0)) as server,
        pytest.raises(ConfigError, match=r"cannot listen on 127\.0\.0\.1:.*--web\.listen-address"),
    ):
        Server(app(), server.address)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
def test_an_address_that_is_not_ours_is_an_error(host: str) -> None:
    with pytest.raises(ConfigError, match="cannot listen on"):
        Server(app(), ListenAddress(host, 0))


def test_a_request_in_progress_is_finished_before_it_stops() -> None:
    began, go_on = threading.Event(), threading.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        import asyncio

        began.set()
        await asyncio.to_thread(go_on.wait, 60)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"done"})

    answers: list[bytes] = []
    with urllib3.PoolManager(retries=False, timeout=60) as pool:
        server = Server(slow, ListenAddress("127.0.0.1", 0))
        server.start()
        asking = threading.Thread(target=lambda: answers.append(pool.request("GET", server.url).data))
        asking.start()
        assert began.wait(60)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        go_on.set()
        stopping.join(60)
        asking.join(60)
    assert answers == [b"done"]


def test_ipv6_where_there_is_one() -> None:
    try:
        server = Server(app(), ListenAddress("::1", 0))
    except ConfigError:
        pytest.skip("no IPv6 loopback here")
    with server, urllib3.PoolManager(retries=False, timeout=60) as pool:
        assert server.url == f"http://[::1]:{server.address.port}/"
        assert pool.request("GET", server.url).status == 200


def answers(server: Server, path: str) -> bool:
    """Whether a connection of its own for one request gets an answer."""
    url = f"http://127.0.0.1:{server.address.port}{path}"
    with urllib3.PoolManager(retries=False, timeout=10) as pool:
        try:
            return pool.request("GET", url, headers={"Connection": "close"}).status == 200
        except urllib3.exceptions.HTTPError:
            return False


def test_the_page_has_no_health_and_the_health_listener_no_page() -> None:
    reader = FixedReader()
    page = create_app(reader, reader)
    loopback = ListenAddress("127.0.0.1", 0)
    with Server(page, loopback) as served, Server(create_health_app(page), loopback) as health:
        assert not any(answers(served, path) for path in HEALTH_PATHS)
        assert not any(answers(health, path) for path in ("/", "/login", "/api/v1/status", "/static/style.css"))
        assert answers(served, "/")
        assert all(answers(health, path) for path in HEALTH_PATHS)
