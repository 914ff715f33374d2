"""Whatever is sent to the tests' API server, it answers something and serves on."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.kubernetes import Clock, KubernetesServer, node, pod
from tests.fakes.kubernetes.client import Client

STEPS = (
    "api",
    "apis",
    "v1",
    "apps",
    "batch",
    "namespaces",
    "ml",
    "pods",
    "p0",
    "nodes",
    "status",
    "watch",
    "scale",
    "",
)
ODD = st.one_of(st.sampled_from(STEPS), st.text(max_size=8))
NAMES = ("labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch", "dryRun")
VALUES = st.one_of(
    st.sampled_from(["a in (b,c)", "!a", "a=", "spec.nodeName=x", "-1", "99", "abc", "Exact", "e30", "All", "a in ("]),
    st.text(max_size=12),
)
MEDIA = ("application/json", "application/yaml", "application/merge-patch+json", "application/json-patch+json")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "metadata",
                    "spec",
                    "status",
                    "name",
                    "namespace",
                    "labels",
                    "containers",
                    "resources",
                    "limits",
                    "op",
                    "path",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def server() -> Iterator[KubernetesServer]:
    """Whose hours are short: a watch that is hit upon ends."""
    with KubernetesServer(clock=Clock(pace=0.00005), namespaces=("ml",)) as running:
        running.put(pod("p0"))
        yield running


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
    steps=st.lists(ODD, max_size=8),
    query=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3),
    media=st.sampled_from(MEDIA),
    body=JSON,
)
def test_any_request(
    server: KubernetesServer, method: str, steps: list[str], query: dict[str, str], media: str, body: Any
) -> None:
    path = "/" + "/".join(quote(step, safe="") for step in steps)
    with Client(server) as client:
        answer = client.ask(f"{path}?{urlencode(query)}", method, body, Content_Type=media)
        said = answer.read()
    assert 200 <= answer.status < 600
    if answer.headers["Content-Type"] == "application/json" and method != "HEAD":
        json.loads(said)


POD = "/api/v1/namespaces/ml/pods"


@pytest.mark.parametrize("media", MEDIA)
@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"null", b"\0" * 50, b'{"metadata":1}', b"&a [*a]"]
)
def test_bodies_that_are_no_objects(server: KubernetesServer, media: str, body: bytes) -> None:
    connection = http.client.HTTPConnection(server.url.partition("//")[2], timeout=30)
    try:
        for method, path in (("POST", POD), ("PUT", f"{POD}/p0"), ("PATCH", f"{POD}/p0")):
            connection.request(method, path, body, {"Authorization": "Bearer admin", "Content-Type": media})
            answer = connection.getresponse()
            answer.read()
            assert answer.status in (400, 415, 422, 500)
    finally:
        connection.close()
    assert server.get("Pod", "ml", "p0")["spec"]["nodeName"] == "gpu-node-a"


def test_a_body_that_is_too_large(server: KubernetesServer) -> None:
    """Is not read: the answer comes at once."""
    with Client(server) as client:
        client.connection.putrequest("POST", POD)
        client.connection.putheader("Authorization", "Bearer admin")
        client.connection.putheader("Content-Length", str(4 << 20))
        client.connection.endheaders()
        assert client.connection.getresponse().status == 413


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20,
        b"GET",
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_request_leaves_it_serving(server: KubernetesServer, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as client:
        client.sendall(raw)
    server.put(node("gpu-node-a"))
    with Client(server) as client:
        assert client.json("/api/v1/nodes")[0] == 200
