"""Grafana on a port of this machine, which can be told to misbehave.

with GrafanaServer() as grafana:
    grafana.url, grafana.token                       # an Editor's; grafana.viewer is one that may only read
    grafana.fail("POST /dashboards/db", Answer(500, b"{}"), times=2)
    grafana.fail("POST *", Cut.CLOSE, performed=True)    # done, and the answer is lost
    grafana.content.dashboards, grafana.calls
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from .rules import Content, RefusedError, routes

TOKEN = "glsa_000SecretOfTheEditor_0badcafe"
VIEWER = "glsa_000SecretOfTheViewer_0badcafe"


@dataclass(frozen=True)
class Answer:
    """An answer of HTTP, to the byte."""

    status: int = 200
    body: bytes = b"{}"
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json; charset=UTF-8"),)


LOGIN_PAGE = Answer(200, b"<!doctype html><title>Log in</title>", (("Content-Type", "text/html"),))


class Cut(Enum):
    """No answer, or not all of it."""

    CLOSE = auto()
    """Closes the connection without a byte."""
    HANG = auto()
    """Says nothing until the server ends."""
    HALF = auto()
    """Closes in the middle of a body whose length it announced."""
    DRIP = auto()
    """Sends a byte now and then, without an end."""
    FLOOD = auto()
    """Sends without an end, as fast as it is read."""


@dataclass
class _Fault:
    pattern: str
    answer: Answer | Cut
    times: int | None
    performed: bool
    skip: int


@dataclass(frozen=True)
class Call:
    """A request that came."""

    method: str
    path: str
    """Below /api."""
    said: Any
    token: str

    @property
    def writes(self) -> bool:
        """Whether it would change something."""
        return self.method != "GET"


class GrafanaServer:
    """One organization. `prefix` is the path that it is served under. Thread-safe."""

    def __init__(self, *, prefix: str = "", certificate: Path | None = None, version: str = "12.1.0") -> None:
        self.content = Content(int(version.partition(".")[0]))
        self.token, self.viewer, self.version = TOKEN, VIEWER, version
        self.calls: list[Call] = []
        self.before: Callable[[Call], None] = lambda call: None
        """Called before a request is done: what somebody else does at the same time."""
        self._prefix, self._scheme = prefix, "http" if certificate is None else "https"
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._http = _Server(("127.0.0.1", 0), _handler(self))
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            # Who connects and says nothing holds up a thread of its own, not the one that accepts.
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """What a person would enter."""
        return f"{self._scheme}://127.0.0.1:{self._http.server_address[1]}{self._prefix}"

    def fail(
        self, pattern: str, answer: Answer | Cut, *, times: int | None = 1, performed: bool = False, skip: int = 0
    ) -> None:
        """From now on, requests that `pattern` matches (`METHOD /path`, a shell pattern) are answered so: `times` of
        them (None: all), after `skip` that are not. With `performed` what was asked is done first.
        """
        with self._lock:
            self._faults.append(_Fault(pattern, answer, times, performed, skip))

    def writes(self) -> list[str]:
        """The requests that would change something, in order."""
        return [f"{call.method} {call.path}" for call in self.calls if call.writes]

    def respond(self, method: str, path: str, token: str, body: bytes) -> Answer | Cut:
        """The answer to a request."""
        parts = urlsplit(path)
        if not parts.path.startswith(f"{self._prefix}/api/"):
            return LOGIN_PAGE
        below = parts.path.removeprefix(f"{self._prefix}/api")
        call = Call(method, below, json.loads(body) if body else None, token)
        with self._lock:
            self.calls.append(call)
            self.before(call)
            fault = self._fault(f"{method} {below}")
            if fault is not None and not fault.performed:
                return fault.answer
            answer = self._answered(call, parts.query)
            return answer if fault is None else fault.answer

    def _fault(self, asked: str) -> _Fault | None:
        for fault in self._faults:
            if fnmatch(asked, fault.pattern) and fault.times != 0:
                if fault.skip:
                    fault.skip -= 1
                    return None
                fault.times = None if fault.times is None else fault.times - 1
                return fault
        return None

    def _answered(self, call: Call, query: str) -> Answer:
        if call.path == "/health":
            return _json(200, {"database": "ok", "version": self.version, "commit": "0"})
        if call.token not in (self.token, self.viewer):
            return _json(401, {"message": "Invalid API key" if call.token else "Unauthorized"})
        for method, pattern, handle in routes(self.content):
            if method == call.method and (found := re.fullmatch(pattern, call.path)):
                if call.writes and call.token != self.token:
                    return _json(403, {"message": "You'll need additional permissions to perform this action."})
                try:
                    asked = parse_qs(query)
                    return _json(200, handle(*map(unquote, found.groups()), asked, call.said or {}))
                except RefusedError as error:
                    return _json(error.status, error.body)
        return _json(404, {"message": "Not found"})

    def cut(self, how: Cut, connection: socket.socket) -> None:
        """Does to a connection what `how` says."""
        with suppress(OSError):
            if how is Cut.HANG:
                self._over.wait()
            if how in (Cut.DRIP, Cut.FLOOD):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
                piece, pause = (b" ", 0.05) if how is Cut.DRIP else (b" " * 2**16, 0.0)
                while not self._over.wait(pause):
                    connection.sendall(piece)
            if how is Cut.HALF:
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
                )
            connection.shutdown(socket.SHUT_RDWR)


def _json(status: int, value: object) -> Answer:
    return Answer(status, json.dumps(value).encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True


def _handler(grafana: GrafanaServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        timeout = 60

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            answer = grafana.respond(self.command, self.path, token, body)
            if isinstance(answer, Cut):
                self.close_connection = True
                grafana.cut(answer, self.connection)
                return
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(answer.body)

        do_GET = _do  # noqa: N815 - the names of http.server
        do_POST = _do  # noqa: N815
        do_PATCH = _do  # noqa: N815
        do_PUT = _do  # noqa: N815
        do_DELETE = _do  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    return Handler
