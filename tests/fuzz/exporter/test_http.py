"""What clients tell the exporter: the bytes of a request, its headers and its log-in."""

from __future__ import annotations

import base64
import socket
from types import SimpleNamespace

from dutycycle_exporter.web import Scrapes, make_app
from dutycycle_exporter.web.access import Policy
from dutycycle_exporter.web.config import WebConfig
from dutycycle_exporter.web.passwords import Passwords
from dutycycle_exporter.web.server import _Handler
from tests.fuzz.hostile import documents, texts
from tests.fuzz.running import fuzz


class _Fine:
    def unready(self) -> str:
        return ""

    def unhealthy(self) -> str:
        return ""


APP = make_app(Scrapes(lambda: ["up 1\n"]), _Fine())
PATHS = ("/metrics", "/-/healthy", "/-/ready", "/")


@fuzz(
    path=texts(PATHS),
    method=texts(["GET", "HEAD", "POST"]),
    accepted=texts(["gzip, deflate;q=0.5", "gzip;q=0", "*"]),
    timeout=texts(["10", "0.5", "1e400", "nan", "-1"]),
)
def test_any_request_has_an_answer(path: str, method: str, accepted: str, timeout: str) -> None:
    statuses = []
    environ = {
        "PATH_INFO": path,
        "REQUEST_METHOD": method,
        "HTTP_ACCEPT_ENCODING": accepted,
        "HTTP_X_PROMETHEUS_SCRAPE_TIMEOUT_SECONDS": timeout,
    }
    body = b"".join(APP(environ, lambda status, headers: statuses.append(status)))  # type: ignore[arg-type, misc]
    assert statuses
    assert statuses[0][:3] == ("405" if method not in ("GET", "HEAD") else "200" if path in PATHS else "404")
    assert body or method == "HEAD"


HTTP = (
    b"GET /metrics HTTP/1.1\r\nHost: n1:9836\r\nAccept-Encoding: gzip\r\nAuthorization: Basic YTpi\r\n\r\n",
    b"HEAD /-/healthy HTTP/1.0\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}",
    b"GET /\r\n",
)
LINES = (
    *(b"Content-Length: -1\r\n", b"Content-Length: x\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"HTTP/9.9", b"HTTP/1.1.1", b"X: y\r\n" * 200, b" folded\r\n", b"%ff%00", b"//", b"http://a/metrics"),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)
PAGES = (b"<!doctype html>", b"up 1\n", b"\x1f\x8b", b"ok\n", b"there are ", b"only GET and HEAD")
ERROR_PAGE = b"<!DOCTYPE HTML>"
"""The standard library's."""

SERVER = SimpleNamespace(
    get_app=lambda: APP,
    base_environ={"SERVER_NAME": "n1", "SERVER_PORT": "9836", "GATEWAY_INTERFACE": "CGI/1.1", "SCRIPT_NAME": ""},
)


@fuzz(request=documents(HTTP, tokens=LINES))
def test_any_bytes_of_a_client_are_answered_or_let_go(request: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        theirs.sendall(request[: 1 << 17])
        theirs.shutdown(socket.SHUT_WR)
        _Handler(ours, ("10.0.0.1", 40000), SERVER)  # type: ignore[arg-type]
        ours.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: theirs.recv(1 << 16), b""))
    # By HTTP/0.9, or before it is known which, an answer has no head.
    if answer.startswith(b"HTTP/1."):
        assert answer.split()[1] in (b"100", b"200", b"400", b"404", b"405", b"414", b"431", b"501", b"505"), answer
    else:
        assert answer.startswith((*PAGES, ERROR_PAGE)) or not answer


BASIC = tuple(f"Basic {base64.b64encode(text).decode()}" for text in (b"alice:wrong", b"alice", b"a:b:c", b"\xff:\0"))


@fuzz(header=texts(BASIC))
def test_no_header_but_the_right_one_is_let_in(header: str) -> None:
    assert not Policy(WebConfig(), None, _NOBODY, None).admits(header)


class _Nobody(Passwords):
    """The hashing is the system's, and slow on purpose."""

    def right(self, user: str, password: str) -> bool:
        user.encode()
        password.encode()
        return False


_NOBODY = _Nobody({})
