"""Requests to an API server that refuses, fails, is slow, or is not one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dutycycle_exporter.attribution.errors import UnusableError
from dutycycle_exporter.attribution.kubernetes.api_server import ApiServer
from dutycycle_exporter.attribution.kubernetes.records import parse_pods
from dutycycle_exporter.errors import ExporterError
from tests.exporter.attribution.kubernetes.usual import NAMING
from tests.exporter.daemon import eventually
from tests.fakes.kubelet import FakeApiServer

PODS = "/api/v1/pods?fieldSelector=spec.nodeName%3Dgpu-real-0&resourceVersion=0"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("good\n")
    return path


def refusal(server: ApiServer, *, timeout: float = 20, limit: int = 2**20) -> str:
    with pytest.raises(UnusableError) as caught:
        server.get(PODS, timeout=timeout, limit=limit)
    return caught.value.reason


def test_the_nodes_pods_over_tls_with_the_service_accounts_token(tls: tuple[Path, Path], token: Path) -> None:
    with FakeApiServer(tls=tls) as fake:
        fake.add("a", "u-1")
        fake.add("b", "u-2", node="elsewhere")
        server = ApiServer(fake.url, token, tls[0])
        records, _ = parse_pods(server.get(PODS, timeout=20, limit=2**20), NAMING)
        assert [record.uid for record in records] == ["u-1"]
        assert fake.targets == [PODS]


def test_a_token_that_was_renewed_is_used_at_once(token: Path) -> None:
    with FakeApiServer() as fake:
        server = ApiServer(fake.url, token)
        server.get(PODS, timeout=20, limit=2**20)
        fake.add_user("exporter", "renewed", *fake.users["good"].rules)
        fake.remove_user("good")
        assert refusal(server) == "unauthorized"
        token.write_text("renewed")
        server.get(PODS, timeout=20, limit=2**20)


def test_a_server_of_another_authority_is_not_believed(tls: tuple[Path, Path], token: Path, tmp_path: Path) -> None:
    with FakeApiServer(tls=tls) as fake:
        assert refusal(ApiServer(fake.url, token)) == "tls"
        nonsense = tmp_path / "ca.crt"
        nonsense.write_text("no certificate")
        assert refusal(ApiServer(fake.url, token, nonsense)) == "credentials"
        assert refusal(ApiServer(fake.url, token, tmp_path / "absent")) == "credentials"
        assert refusal(ApiServer(fake.url.replace("127.0.0.1", "localhost"), token, tls[0])) == "tls"
        assert fake.targets == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [("bad", "unauthorized"), ("", "credentials"), ("a\r\nHost: b", "credentials"), ("é", "credentials")],
)
def test_a_token_that_is_not_good(content: str, reason: str, token: Path) -> None:
    token.write_text(content)
    with FakeApiServer() as fake:
        assert refusal(ApiServer(fake.url, token)) == reason
        assert refusal(ApiServer(fake.url, token / "below")) == "credentials"
        assert refusal(ApiServer(fake.url)) == "forbidden"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "unauthorized"),
        (403, "forbidden"),
        (404, "not_found"),
        (410, "gone"),
        (429, "throttled"),
        (500, "server_error"),
        (503, "server_error"),
        (504, "timeout"),
        (302, "protocol"),
        (204, "protocol"),
        (400, "protocol"),
    ],
)
def test_each_status_has_its_word(status: int, reason: str, token: Path) -> None:
    with FakeApiServer() as fake:
        fake.inject("error", code=status)
        assert refusal(ApiServer(fake.url, token)) == reason


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "closed"),
        (b"\0\1\2\3\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort", "closed"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "closed"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab", "closed"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", "protocol"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "protocol"),
    ],
)
def test_what_is_no_answer_is_refused(raw: bytes, reason: str, token: Path) -> None:
    with FakeApiServer() as fake:
        fake.inject("raw", body=raw)
        assert refusal(ApiServer(fake.url, token)) == reason


def test_an_answer_over_the_limit_is_refused(token: Path) -> None:
    with FakeApiServer() as fake:
        fake.inject("garbage", body=bytes(2**21))
        assert refusal(ApiServer(fake.url, token)) == "too_large"


@pytest.mark.parametrize("secure", [False, True])
def test_a_server_that_does_not_finish_is_left(secure: bool, token: Path, tls: tuple[Path, Path]) -> None:
    """One that says nothing, and one that sends a byte now and then for ever."""
    with FakeApiServer(tls=tls if secure else None) as fake:
        server = ApiServer(fake.url, token, tls[0])
        for action in ("hang", "drip"):
            with fake.inject(action) as fault:
                assert refusal(server, timeout=5) == "timeout"
                eventually(lambda fault=fault: fault.count == 1, "it was asked")


def test_a_server_that_is_not_there(token: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    assert refusal(ApiServer(f"http://127.0.0.1:{port}", token)) == "unreachable"
    assert refusal(ApiServer(f"https://127.0.0.1:{port}", token)) == "unreachable"
    assert refusal(ApiServer(f"http://{'x' * 70}.invalid", token)) == "unreachable"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "10.0.0.1:6443",
        "ftp://x",
        "https://",
        "https://x:port",
        "https://[::1",
        "https://b\u00fccher.example",
        "https://a b",
    ],
)
def test_an_address_that_is_none_is_an_error_with_a_remedy(url: str) -> None:
    with pytest.raises(ExporterError, match="write it like https"):
        ApiServer(url)


@pytest.mark.parametrize(("scheme", "port"), [("http", 80), ("https", 443)])
def test_an_ipv6_address_without_a_port_is_asked_at_the_schemes_own(
    scheme: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def connect(address: tuple[str, int], *_: object) -> socket.socket:
        asked.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", connect)
    for host in ("fd00::ab", "fd00::1"):
        assert refusal(ApiServer(f"{scheme}://[{host}]")) == "unreachable"
    assert asked == [("fd00::ab", port), ("fd00::1", port)]


def test_the_cluster_of_a_pod_is_in_its_environment(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert ApiServer.of_pod(environ, tmp_path) is None
    (tmp_path / "token").write_text("t")
    assert ApiServer.of_pod({}, tmp_path) is None
    assert ApiServer.of_pod(environ, tmp_path) == ApiServer(
        "https://10.0.0.1:6443", tmp_path / "token", tmp_path / "ca.crt"
    )
    six = ApiServer.of_pod({"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path)
    assert six is not None
    assert six.url == "https://[fd00::1]:443"
