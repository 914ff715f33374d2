"""The official client as a way to the server: where its configuration is from, and what its errors become."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config import incluster_config

from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.kubernetes.access import Access
from dutycycle_alerter.kubernetes.client import Client
from dutycycle_alerter.kubernetes.cluster import Cluster
from dutycycle_alerter.kubernetes.failures import ApiError, Failure
from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from tests.alerter import raw_http
from tests.alerter.kubernetes.watched import CALM, agrees, kubeconfig, until
from tests.fakes.kubelet.api import certificate
from tests.fakes.kubernetes import ALL, KubernetesServer, builders
from tests.required import lacking

SECRET = "s3cret-t0ken"
ELSEWHERE = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def server() -> Any:
    with KubernetesServer() as found:
        yield found


def access(directory: Path, url: str, user: dict[str, Any] | None = None, **cluster: Any) -> Access:
    path = kubeconfig(directory, url, {"token": SECRET} if user is None else user, **cluster)
    return Access(KubernetesCluster(kubeconfig=path, cluster="prod"))


def failure(found: Access, timeout: float = 5.0) -> ApiError:
    with pytest.raises(ApiError) as caught:
        Client(found, timeout).get("/api/v1/pods")
    found.close()
    assert SECRET not in str(caught.value)
    assert "Kubernetes cluster prod (http" in str(caught.value)
    return caught.value


def test_without_a_cluster_the_official_client_is_never_loaded() -> None:
    """It takes a quarter of a second and megabytes."""
    modules = "app, cli.serve, settings, schedulers, kubernetes.cluster"
    imports = "\n".join(f"import dutycycle_alerter.{name.strip()}" for name in modules.split(","))
    code = f"{imports}\nimport sys\nassert not [name for name in sys.modules if name.split('.')[0] == 'kubernetes']"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_pods_own_service_account_whose_token_rotates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old token is refused before the official client would read the file again, a minute later."""
    made = certificate(tmp_path)
    if made is None:
        lacking("openssl")
    token = tmp_path / "token"
    token.write_text("first\n")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(made[0]))
    with KubernetesServer(tls=made) as server:
        server.add_user("alerter", "first", ALL)
        server.put(builders.pod("train-0"))
        host, port = server.url.removeprefix("https://").split(":")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
        own = Cluster(KubernetesCluster(nodes=False), pace=CALM)
        own.start()
        try:
            until(lambda: agrees(own, server))
            token.write_text("second\n")
            server.add_user("alerter", "second", ALL)
            server.remove_user("first")
            server.put(builders.pod("train-1"))
            with server.inject("cut", times=1):
                until(lambda: own.counters().failures.get("unauthorized"))
            until(lambda: agrees(own, server))
            assert "of this pod (https://127.0.0.1" in Access(KubernetesCluster()).shown
        finally:
            own.close()


def test_outside_a_pod_a_kubeconfig_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match=r"Service host/port is not set.*name a kubeconfig"):
        Access(KubernetesCluster())


def test_the_context_that_is_named(tmp_path: Path, server: KubernetesServer) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")
    content = json.loads(path.read_text())
    content["clusters"].append({"name": "two", "cluster": {"server": server.url}})
    content["contexts"].append({"name": "there", "context": {"cluster": "two", "user": "me"}})
    path.write_text(json.dumps(content))
    found = Access(KubernetesCluster(kubeconfig=path, context="there"))
    assert b"PodList" in Client(found, 5.0).get("/api/v1/pods")
    assert found.shown == f"Kubernetes cluster there ({server.url})"
    found.close()


def test_a_password_in_the_servers_url_is_not_shown(tmp_path: Path) -> None:
    found = access(tmp_path, f"http://me:{SECRET}@127.0.0.1:1")
    assert found.shown == "Kubernetes cluster prod (http://127.0.0.1:1)"
    assert failure(found).failure is Failure.UNREACHABLE


def config(context: dict[str, str], cluster: dict[str, str], **user: str) -> str:
    return json.dumps(
        {
            "current-context": "x",
            "contexts": [{"name": "x", "context": context}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "me", "user": user}],
        }
    )


MINE = {"user": "me", "cluster": "c"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file or directory"),
        ("", "not a kubeconfig"),
        ("- [", "not YAML, in line 1"),
        ("{}", "Expected"),
        ("just text", "not a kubeconfig"),
        (config(MINE, {}).replace('"current-context": "x"', '"current-context": "y"'), "Expected object with name y"),
        (config({"user": "me"}, {}, token=SECRET), "Expected key cluster"),
        (config(MINE, {"server": "https://x", "certificate-authority-data": f"{SECRET}!"}), "not a kubeconfig"),
        (config(MINE, {"server": "ftp://x"}), "no URL"),
        (config(MINE, {"server": "https://x", "certificate-authority": "/no/such"}), "File does not exist: /no/such"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used(tmp_path: Path, content: str | None, problem: str) -> None:
    """The error names the file and what is wrong; and nothing that stands in it beside names."""
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        Access(KubernetesCluster(kubeconfig=path))
    assert str(path) in str(caught.value)
    assert problem in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_context_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Expected object with name nowhere"):
        Access(KubernetesCluster(kubeconfig=kubeconfig(tmp_path, "http://x"), context="nowhere"))


def test_a_token_that_is_none(tmp_path: Path, server: KubernetesServer) -> None:
    error = failure(access(tmp_path, server.url, {"token": f"{SECRET}\r\nX-Other: 1"}))
    assert (error.failure, "the token is none" in str(error)) == (Failure.CREDENTIALS, True)


@pytest.mark.parametrize(
    ("url", "kind", "words"),
    [
        ("http://127.0.0.1:1", Failure.UNREACHABLE, "not reached: Connection refused"),
        ("http://no-such-host.invalid", Failure.UNREACHABLE, "its name is not known"),
    ],
)
def test_servers_that_are_not_there(tmp_path: Path, url: str, kind: Failure, words: str) -> None:
    error = failure(access(tmp_path, url))
    assert (error.failure, words in str(error)) == (kind, True), str(error)


def test_a_server_that_refuses(tmp_path: Path, server: KubernetesServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    error = failure(access(tmp_path, server.url))
    assert (error.failure, "has it ended?" in str(error)) == (Failure.UNAUTHORIZED, True)
    server.add_user("bob", SECRET)
    error = failure(access(tmp_path, server.url))
    assert error.failure is Failure.FORBIDDEN
    assert 'User "bob" cannot list resource "pods"' in str(error)
    assert "grant get, list and watch" in str(error)
    assert SECRET not in caplog.text


def test_nobody_in_particular(tmp_path: Path, server: KubernetesServer) -> None:
    error = failure(access(tmp_path, server.url, {}))
    assert (error.failure, "no token or certificate came along" in str(error)) == (Failure.UNAUTHORIZED, True)


def test_certificates_that_are_not_trusted(tmp_path: Path) -> None:
    made = certificate(tmp_path)
    if made is None:
        lacking("openssl")
    with KubernetesServer(tls=made) as server:
        error = failure(access(tmp_path, server.url))
        assert (error.failure, "certificate is not trusted" in str(error)) == (Failure.TLS, True)
        trusting = access(tmp_path, server.url, {"token": "admin"}, **{"certificate-authority": str(made[0])})
        careless = access(tmp_path, server.url, {"token": "admin"}, **{"insecure-skip-tls-verify": True})
        for found in (trusting, careless):
            assert b"PodList" in Client(found, 5.0).get("/api/v1/pods")
            found.close()


def answering(data: bytes) -> raw_http.Behaviour:
    def behave(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(data)

    return behave


def hanging(connection: socket.socket, over: threading.Event) -> None:
    over.wait(60)


def dripping(connection: socket.socket, over: threading.Event) -> None:
    """A header that never ends: every byte comes before the next time-out."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while not over.wait(0.05):
        connection.sendall(b"x")


def dripping_body(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while not over.wait(0.05):
        connection.sendall(b" ")


@pytest.mark.parametrize(
    ("behave", "kind", "words"),
    [
        (answering(b""), Failure.CUT, "cut off"),
        (answering(b"\x00\x01garbage\r\n\r\n"), Failure.CUT, "cut off"),
        (answering(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf"), Failure.CUT, "cut off"),
        (answering(ELSEWHERE), Failure.REFUSED, "answered 302: it sends elsewhere"),
        (answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nnope\n"), Failure.NOT_FOUND, "404"),
        (answering(b"HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\n{\xff\xfe{\n"), Failure.SERVER, "500"),
        (hanging, Failure.TIMEOUT, "no answer within 0.4 s"),
        (dripping, Failure.TIMEOUT, "no answer within 0.4 s"),
        (dripping_body, Failure.TIMEOUT, "no answer within 6 s"),
    ],
)
def test_what_is_no_api_server(tmp_path: Path, behave: raw_http.Behaviour, kind: Failure, words: str) -> None:
    # Whatever answers, or begins to, may be slow to do so.
    timeout = 3.0 if behave is dripping_body else 0.4 if kind is Failure.TIMEOUT else 30.0
    with raw_http.server(behave, "") as url:
        error = failure(access(tmp_path, url), timeout)
    assert (error.failure, words in str(error)) == (kind, True), str(error)


def test_an_answer_that_is_too_large(tmp_path: Path) -> None:
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000
    with raw_http.server(answering(body), "") as url, pytest.raises(ApiError, match="larger than") as caught:
        Client(access(tmp_path, url), 5.0, most_bytes=4096).get("/api/v1/pods")
    assert caught.value.failure is Failure.GARBAGE


@pytest.mark.parametrize(
    ("header", "body", "seconds"),
    [
        (b"Retry-After: 7\r\n", b"", 7.0),
        (b"Retry-After: 999999\r\n", b"", 600.0),
        (b"Retry-After: soon\r\n", b"", None),
        (b"Retry-After: -5\r\n", b"", None),
        (b"Retry-After: Fri, 01 Jan 2021 00:00:00 GMT\r\n", b"", 0.0),
        (b"", b'{"kind": "Status", "details": {"retryAfterSeconds": 3}}', 3.0),
        (b"", b"", None),
    ],
)
def test_when_to_come_again(tmp_path: Path, header: bytes, body: bytes, seconds: float | None) -> None:
    answer = b"HTTP/1.1 429 No\r\n%sContent-Length: %d\r\n\r\n%s" % (header, len(body), body)
    with raw_http.server(answering(answer), "") as url:
        error = failure(access(tmp_path, url))
    assert (error.failure, error.retry_after) == (Failure.THROTTLED, seconds)


@pytest.mark.parametrize(
    ("url", "how", "words"),
    [
        ("http://10.0.0.1", {}, "the token is sent without encryption"),
        ("https://10.0.0.1", {"insecure-skip-tls-verify": True}, "the token is sent to whoever answers"),
        ("https://10.0.0.1", {}, ""),
        ("http://127.0.0.1:8001", {}, ""),
        ("http://localhost:8001", {}, ""),
    ],
)
def test_carelessness_is_told(tmp_path: Path, url: str, how: dict[str, Any], words: str) -> None:
    """In what the status says of a cluster; and not where there is no token, or it does not leave the machine."""
    path = kubeconfig(tmp_path, url, {"token": SECRET}, **how)
    cluster = Cluster(KubernetesCluster(kubeconfig=path, nodes=False))
    assert cluster.snapshot().note.startswith(words)
    assert bool(cluster.snapshot().note) == bool(words)
    cluster.close()
    assert access(tmp_path, url, {}, **how).note() == ""
