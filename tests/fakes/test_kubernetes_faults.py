"""What the tests' API server does wrong on demand, and that it does well again afterwards."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import pytest

from tests.fakes.kubernetes import KubernetesServer, pod
from tests.fakes.kubernetes.client import PATIENCE, Client, events, until


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as running:
        yield running


def spoiled(server: KubernetesServer, path: str = "/api/v1/pods") -> tuple[int, bytes]:
    with Client(server) as client:
        answer = client.ask(path)
        return answer.status, answer.read()


@pytest.mark.parametrize(("code", "reason"), [(500, "InternalError"), (403, "Forbidden"), (503, "ServiceUnavailable")])
def test_errors_on_demand(server: KubernetesServer, code: int, reason: str) -> None:
    with server.inject("error", code=code) as fault:
        answered, body = spoiled(server)
        assert (answered, json.loads(body)["reason"]) == (code, reason)
    assert fault.count == 1
    assert spoiled(server)[0] == 200


@pytest.mark.parametrize("plain", [None, False])
def test_throttling_says_when_to_come_again(server: KubernetesServer, plain: bool | None) -> None:
    """In plain text as the flow control of a real server, or with a Status as its storage."""
    with server.inject("error", code=429, retry_after=3, plain=plain), Client(server) as client:
        answer = client.ask("/api/v1/pods")
        assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
        body = answer.read()
    if plain is None:
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert body == b"Too many requests, please try again later.\n"
    else:
        assert json.loads(body)["details"] == {"retryAfterSeconds": 3}
        assert json.loads(body)["reason"] == "TooManyRequests"


def test_a_fault_is_for_some_requests_and_for_some_times(server: KubernetesServer) -> None:
    fault = server.inject("error", path="^/api/v1/pods$", verb="list", times=2)
    found = [spoiled(server, path)[0] for path in ("/api/v1/nodes", "/api/v1/pods", "/api/v1/pods", "/api/v1/pods")]
    assert found == [200, 500, 500, 200]
    assert fault.count == 2


def test_garbage_and_an_endless_line_in_place_of_a_list(server: KubernetesServer) -> None:
    with server.inject("garbage"):
        code, body = spoiled(server)
        assert code == 200
        with pytest.raises(ValueError, match=r"decode|Expecting"):
            json.loads(body)
    with server.inject("long", size=2 << 20):
        assert len(spoiled(server)[1]) > 2 << 20


def test_an_answer_of_ones_own_and_one_that_is_no_http(server: KubernetesServer) -> None:
    with server.inject("garbage", body=b"[1]"):
        assert spoiled(server) == (200, b"[1]")
    with server.inject("raw", body=b"\0\1\r\n\r\n"), pytest.raises(http.client.BadStatusLine):
        spoiled(server)


def test_a_connection_that_is_closed_before_an_answer(server: KubernetesServer) -> None:
    with server.inject("close"), pytest.raises(http.client.RemoteDisconnected):
        spoiled(server)


def test_a_server_that_never_answers(server: KubernetesServer) -> None:
    """It closes the connection when that is over."""
    with Client(server) as client:
        fault = server.inject("hang")
        client.connection.request("GET", "/api/v1/pods", headers=client.headers)
        until(lambda: fault.count == 1)
        assert client.connection.sock is not None
        client.connection.sock.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.connection.sock.recv(1)
        fault.remove()
        client.connection.sock.settimeout(PATIENCE)
        assert client.connection.sock.recv(1) == b""


def test_a_server_that_sends_a_byte_now_and_then(server: KubernetesServer) -> None:
    with server.inject("drip") as fault, Client(server) as client:
        answer = client.ask("/api/v1/pods")
        assert answer.read(3) == b"   "
        fault.remove()
        with pytest.raises(http.client.IncompleteRead):
            answer.read()


@pytest.mark.parametrize("action", ["end", "cut", "half-line", "expire", "garbage-line", "long-line"])
def test_a_watch_that_goes_wrong_while_it_runs(server: KubernetesServer, action: str) -> None:
    server.put(pod("a"))
    with Client(server) as client:
        answer = client.ask("/api/v1/pods?watch=true")
        assert events(answer, 1) == [("ADDED", "a")]
        fault = server.inject(action, verb="watch", size=3 << 20, times=1)
        try:
            rest, whole = answer.read(), True
        except http.client.IncompleteRead as cut:
            rest, whole = cut.partial, False
    assert fault.count == 1
    assert whole is (action not in ("cut", "half-line"))
    if action in ("end", "cut"):
        assert rest == b""
    elif action == "expire":
        assert json.loads(rest)["object"]["reason"] == "Expired"
    elif action == "long-line":
        assert rest.count(b"\n") == 1
        assert len(rest) > 3 << 20
    else:
        assert rest.endswith(b"\n") is (action == "garbage-line")
        with pytest.raises(ValueError, match=r"decode|delimiter|Expecting|Unterminated"):
            json.loads(rest)


def test_a_watch_breaks_after_as_many_lines_as_was_said(server: KubernetesServer) -> None:
    """Neither before nor after, though many are due at once."""
    server.put(pod("p0"))
    with server.inject("end", after=3) as fault, Client(server) as client:
        answer = client.ask("/api/v1/pods?watch=true")
        assert events(answer, 1) == [("ADDED", "p0")]
        with server.store.lock:
            for number in range(1, 10):
                server.put(pod(f"p{number}"))
        assert [json.loads(line)["object"]["metadata"]["name"] for line in answer.read().splitlines()] == ["p1", "p2"]
    assert fault.count == 1


def test_a_silent_watch_says_everything_afterwards(server: KubernetesServer) -> None:
    with Client(server) as client:
        answer = client.ask("/api/v1/pods?watch=true")
        until(lambda: server.watching == 1)
        with server.inject("silent") as fault:
            server.put(pod("a"))
            server.put(pod("b"))
            until(lambda: fault.count == 1)
        assert events(answer, 2) == [("ADDED", "a"), ("ADDED", "b")]


def test_a_fault_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="explode"):
        KubernetesServer().inject("explode")
