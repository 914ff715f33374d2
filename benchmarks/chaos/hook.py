"""A program of the site that is told by webhook: over TLS, and only what is signed."""

from __future__ import annotations

import json
import ssl
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dutycycle_alerter.notify.receivers.webhook import DELIVERY, SIGNATURE
from tests.alerter.notify.listening import is_signed

from .record import Taken

KEY = "key-of-the-signatures-8c41d07e"
_TIMEOUT = 10.0
_NOT_SIGNED = "not signed: "


class Hook:
    """A context manager. What it was told is in `taken`, as often as it was. It refuses what is not signed with KEY."""

    def __init__(self, certificate: tuple[Path, Path]) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*certificate)
        self.taken: list[Taken] = []
        self._failures: list[str] = []
        self._server = _Server(self)
        self.port = int(self._server.server_port)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="hook", daemon=True).start()
        return self

    def failed(self, error: BaseException) -> None:
        """An error of its own, which is nobody else's fault."""
        self._failures.append(f"hook: {error!r}")

    def take_failures(self) -> list[str]:
        """Those since this was last asked."""
        failures, self._failures = self._failures, []
        return failures

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, hook: Hook) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.hook = hook

    def finish_request(self, request: Any, client_address: Any) -> None:
        # Here, in its own thread: a client that says nothing keeps no other one waiting.
        request.settimeout(_TIMEOUT)
        with self.hook.context.wrap_socket(request, server_side=True) as encrypted:
            super().finish_request(encrypted, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as it is called
        # Sessions that are cut or damaged are what this is for.
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            self.hook.failed(error)


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:
            # Who sent it was cut off, and is told nothing.
            return
        taken = heard(dict(self.headers.items()), body, time.time())
        self.server.hook.taken.append(taken)
        self.send_response(401 if taken.key.startswith(_NOT_SIGNED) else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


def heard(headers: Mapping[str, str], body: bytes, at: float) -> Taken:
    """A message that came at that time. One that nobody signed with KEY is of no incident, and its key is that of no
    message of ours.
    """
    key = headers.get(DELIVERY, "")
    signed = is_signed(headers.get(SIGNATURE, ""), body, KEY)
    return Taken(
        sink="webhook",
        key=key if signed else f"{_NOT_SIGNED}{key}",
        at=at,
        to=(),
        incidents=_incidents(body) if signed else (),
        headers=tuple(headers.items()),
        body=body.decode(errors="replace"),
    )


def _incidents(body: bytes) -> tuple[int, ...]:
    return tuple(int(item["incident"]["id"]) for item in json.loads(body)["items"])
