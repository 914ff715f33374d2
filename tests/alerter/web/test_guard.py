"""Which requests are answered at all, and what every answer carries."""

from __future__ import annotations

import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from dutycycle_alerter.settings.web import Auth, Web
from dutycycle_alerter.web.guard import MAX_BODY, host_name
from tests.alerter.web.conftest import Client
from tests.alerter.web.doubles import FixedReader, full_reader
from tests.alerter.web.people import AUTH

Serve = Callable[..., Client]


def raw(client: Client, request: bytes) -> bytes:
    """What the server answers to these bytes."""
    place = urlsplit(client.url)
    with socket.create_connection((place.hostname, place.port), timeout=60) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:9837",
        "localhost",
        "LocalHost:1",
        "[::1]:9837",
        "10.1.2.3:80",
        "gpu.example.org",
        "GPU.example.org:443",
        "gpu.example.org.",
        "gpu.example.org.:443",
        "here",
    ],
)
def test_known_names_and_addresses_are_answered(serve: Serve, host: str) -> None:
    """An address is always safe: nobody can make it resolve to another."""
    client = serve(FixedReader(), names=["gpu.example.org"], hosts=["here"])
    assert client.get("/", Host=host).status == 200


def serve_by_names(serve: Serve) -> Client:
    """With names as people write them; browsers send `xn--strae-oqa.example` and `xn--bcher-kva.example`."""
    web = Web(public_url="https://Straße.example:8443/gpus", allowed_hosts=("BÜCHER。example",))
    return serve(FixedReader(), names=web.allowed_hosts, public_url=web.public_url)


def test_a_name_that_is_not_ascii_is_known_as_browsers_send_it(serve: Serve) -> None:
    client = serve_by_names(serve)
    for host in ("xn--strae-oqa.example:8443", "XN--BCHER-KVA.example"):
        assert client.get("/", Host=host).status == 200


@pytest.mark.parametrize("host", ["", "[::1", "a b", "stra\u00dfe.example", "strasse.example", "xn--strae-oqa.evil"])
def test_beside_a_name_that_is_not_ascii_others_are_refused(serve: Serve, host: str) -> None:
    client = serve_by_names(serve)
    answer = raw(client, f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize("host", ["", "[::1", "user@a.example"])
def test_what_is_no_name_is_never_known(serve: Serve, host: str) -> None:
    """Whatever the app is given: a request whose Host is no name either is not for it."""
    client = serve(FixedReader(), hosts=["", "a b"], public_url="https://b\u00fccher.example")
    answer = raw(client, f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "gpu.example.org.evil.example", "", "[::1"],
)
@pytest.mark.parametrize("path", ["/", "/api/v1/incidents", "/static/style.css", "/-/healthy"])
def test_a_name_that_somebody_pointed_here_is_not(serve: Serve, host: str, path: str) -> None:
    client = serve(FixedReader(), names=["gpu.example.org"])
    answer = raw(client, f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 421 ")
    assert b"web.allowed_hosts" in answer


def test_hostile_host_names_are_not_repeated_as_they_are(serve: Serve) -> None:
    answer = raw(serve(FixedReader()), b"GET / HTTP/1.1\r\nHost: <b>\xe9\x1b[31m\r\nConnection: close\r\n\r\n")
    assert b"\x1b" not in answer
    assert b"text/html" not in answer


@pytest.mark.parametrize("host", ["gpu.example.org", "gpu.example.org.", "GPU.example.org:80", "gpu.example.org.:80"])
def test_a_page_may_change_things_under_the_name_it_came_to_however_that_is_written(serve: Serve, host: str) -> None:
    client = serve(full_reader(""), hosts=["gpu.example.org"])
    for origin, own in (
        ("http://gpu.example.org", True),
        ("http://gpu.example.org.", True),
        ("http://gpu.example.org:81", False),
        ("http://www.gpu.example.org", False),
    ):
        answer = client.request(
            "POST", "/incidents/7/resolve", fields={"token": "", "name": "x"}, headers={"Origin": origin, "Host": host}
        )
        assert answer.status == 403
        token_missing = "out of date" in answer.data.decode()
        assert token_missing is own, origin


def test_a_proxys_page_may_change_things_under_its_name(serve: Serve) -> None:
    """The proxy passes another Host on; the browser says the name it knows."""
    web = Web(allowed_hosts=("gpu.example.org", "gpu.example.org:8443", "other.example:443", "dotted.example."))
    client = serve(full_reader(""), names=web.allowed_hosts)
    for origin, own in (
        ("https://gpu.example.org", True),
        ("https://gpu.example.org:8443", True),
        ("https://gpu.example.org:1", False),
        ("https://other.example", True),  # a browser leaves the port out that https has anyway
        ("http://other.example", False),
        ("https://dotted.example", True),
        ("https://dotted.example.", True),
        ("http://[::1", False),
        ("http://[x]", False),
        ("gpu.example.org", False),
    ):
        answer = client.request(
            "POST", "/incidents/7/resolve", fields={"token": "", "name": "x"}, headers={"Origin": origin}
        )
        assert answer.status == 403
        token_missing = "out of date" in answer.data.decode()
        assert token_missing is own, origin


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/incidents/7",
        "/expectations",
        "/login",
        "/act/x",
        "/unsubscribe/x",
        "/nowhere",
        "/api/v1/status",
        "/static/style.css",
        "/-/healthy",
        "/?page=0",
    ],
)
@pytest.mark.parametrize("auth", [None, AUTH], ids=["open", "with log-in"])
def test_every_answer_carries_the_security_headers(serve: Serve, path: str, auth: Auth | None) -> None:
    headers = serve(full_reader(""), auth=auth).get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["style-src"] == "'self'"
    assert policy["form-action"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["base-uri"] == "'none'"
    assert "script-src" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in headers


def test_pages_are_not_kept_and_the_style_sheet_is(serve: Serve) -> None:
    client = serve(full_reader(""))
    assert client.get("/").headers["cache-control"] == "no-store"
    assert "immutable" in client.get("/static/style.css").headers["cache-control"]
    assert client.get("/static/style.css").headers["content-type"].startswith("text/css")
    assert client.get("/static/../site.py").status == 404


def test_large_and_endless_bodies_are_refused(serve: Serve) -> None:
    client = serve(full_reader(""))
    head = b"POST /incidents/7/resolve HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    assert raw(client, head + b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1)).startswith(b"HTTP/1.1 413 ")
    assert raw(client, head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n").startswith(b"HTTP/1.1 411 ")


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("a.example:80", "a.example"),
        ("A.example", "a.example"),
        ("[::1]:80", "::1"),
        ("[::1]", "::1"),
        ("::1", ""),
        ("", ""),
        (":80", ""),
        ("[::1", ""),
        ("a b", ""),
        ("user@a.example", ""),
        ("a.example:80:80", ""),
        ("a.example.", "a.example"),
        ("a.example..", ""),
        ("<b>a.example</b>", ""),
        ("a\u0131.example", ""),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ],
)
def test_host_name(host: str, name: str) -> None:
    assert host_name(host) == name
