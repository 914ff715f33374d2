"""HTTP/1.1 on a socket, plain or TLS: reads requests, writes answers as a real server frames them, and spoils them."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import forms
from .faults import Fault
from .forms import Reply
from .hangups import Hangups
from .status import Refusal, failure
from .watching import Cut

_WHOLE = 2048
"""An answer up to this size tells its length; a longer one comes in chunks."""
_CHUNK = 1 << 16
_LARGEST_BODY = 3 << 20
_TOO_LARGE = forms.refused(
    Refusal(413, failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {_LARGEST_BODY}"))
)
_DRIP = 0.02
_NONSENSE = b'{"kind":"PodList","items":[{"meta\xff\xfe data'
_PRIORITY = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it came. `gone` says whether its client has hung up, or the server is to close."""

    method: str
    url: str
    headers: Any
    body: bytes
    gone: Callable[[], bool]


class Wire(ThreadingHTTPServer):
    """A thread per connection; `close` ends them all. `answer` makes answers, `wake` rouses answers that wait."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        tls: ssl.SSLContext | None,
        answer: Callable[[Call], Reply | Fault],
        lasts: Callable[[Fault], bool],
        wake: Callable[[], None],
    ) -> None:
        super().__init__(address, Handler)
        self.tls = tls
        self.answer = answer
        self.lasts = lasts
        self.wake = wake
        self.closing = threading.Event()
        self.hangups = Hangups()
        self.open: set[socket.socket] = set()
        self.watching = 0
        self._connections: set[threading.Thread] = set()
        self.lock = threading.Lock()
        # Threads are daemons: a test that forgets to stop its server must not keep the tests from ending.
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, name="api-accept", daemon=True
        )
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self._serve, args=(request, client_address), name="api-connection", daemon=True
        )
        with self.lock:
            self._connections.add(thread)
        thread.start()

    def _serve(self, request: Any, client_address: Any) -> None:
        self.process_request_thread(request, client_address)
        with self.lock:
            self._connections.discard(threading.current_thread())

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.closing.set()
        with self.lock:
            for connection in self.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            threads = list(self._connections)
        self.wake()
        for thread in threads:
            thread.join()
        self.server_close()
        self.hangups.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away in the middle are what tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Wire

    def setup(self) -> None:
        self.raw: socket.socket = self.request
        if self.server.tls is not None:
            # Here and not where connections are accepted: one that shakes no hands must not stop the others.
            self.request = self.server.tls.wrap_socket(self.raw, server_side=True, do_handshake_on_connect=False)
            self.raw = self.request
        self.gone = threading.Event()
        super().setup()
        with self.server.lock:
            self.server.open.add(self.raw)
        if self.server.closing.is_set():
            self.raw.shutdown(socket.SHUT_RDWR)

    def handle(self) -> None:
        try:
            if isinstance(self.request, ssl.SSLSocket):
                self.request.do_handshake()
            super().handle()
        except OSError:
            self.close_connection = True

    def finish(self) -> None:
        with self.server.lock:
            self.server.open.discard(self.raw)
        with contextlib.suppress(OSError):
            super().finish()
        if isinstance(self.request, ssl.SSLSocket):
            self.request.close()

    def _hung_up(self) -> None:
        self.gone.set()
        self.server.wake()

    def _left(self) -> bool:
        return self.gone.is_set() or self.server.closing.is_set()

    def handle_any(self) -> None:
        body = self._body()
        if body is None:
            self.close_connection = True
            self._reply(_TOO_LARGE)
            return
        self.server.hangups.watch(self.raw, self._hung_up)
        try:
            answer = self.server.answer(Call(self.command, self.path, self.headers, body, self._left))
            if isinstance(answer, Fault):
                self._spoil(answer)
            elif answer.lines is not None:
                self._stream(answer)
            else:
                self._reply(answer)
        except (OSError, Cut):
            self.close_connection = True
        finally:
            self.server.hangups.forget(self.raw)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = handle_any  # noqa: N815

    def _body(self) -> bytes | None:
        """None where it is too large. ValueError, and with it the end of the connection, where the framing is wrong."""
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            length = int(self.headers.get("Content-Length") or 0)
            return self.rfile.read(length) if 0 <= length <= _LARGEST_BODY else None
        found = b""
        while size := int(self.rfile.readline(100).split(b";")[0] or b"0", 16):
            if not 0 < size <= _LARGEST_BODY - len(found):
                return None
            found += self.rfile.read(size)
            self.rfile.readline(100)
        self.rfile.readline(100)
        return found

    def _head(self, code: int, headers: tuple[tuple[str, str], ...]) -> None:
        self.send_response_only(code)
        self.send_header("Audit-Id", str(uuid.uuid4()))
        self.send_header("Cache-Control", "no-cache, private")
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("X-Kubernetes-Pf-Flowschema-Uid", _PRIORITY)
        self.send_header("X-Kubernetes-Pf-Prioritylevel-Uid", _PRIORITY)
        self.send_header("Date", self.date_time_string())

    def _reply(self, answer: Reply) -> None:
        body = answer.body
        whole = len(body) <= _WHOLE
        framing = ("Content-Length", str(len(body))) if whole else ("Transfer-Encoding", "chunked")
        self._head(answer.code, answer.headers if answer.code == 304 else (*answer.headers, framing))
        self.end_headers()
        if self.command == "HEAD" or answer.code == 304:
            return
        if whole:
            self.wfile.write(body)
            return
        for start in range(0, len(body), _CHUNK):
            self._chunk(body[start : start + _CHUNK])
        self.wfile.write(b"0\r\n\r\n")

    def _stream(self, answer: Reply) -> None:
        self._begin(answer.headers)
        with self.server.lock:
            self.server.watching += 1
        try:
            for lines in answer.lines or ():
                self._chunk(lines)
            if not self._left():
                self.wfile.write(b"0\r\n\r\n")
        finally:
            with self.server.lock:
                self.server.watching -= 1

    def _begin(self, headers: tuple[tuple[str, str], ...]) -> None:
        self._head(200, (*headers, ("Transfer-Encoding", "chunked")))
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _spoil(self, fault: Fault) -> None:
        self.close_connection = True
        if fault.action == "hang":
            self._hang(fault)
        elif fault.action == "drip":
            self._begin((("Content-Type", "application/json"),))
            while not self.gone.wait(_DRIP) and not self.server.closing.is_set() and self.server.lasts(fault):
                self._chunk(b" ")
        elif fault.action == "garbage":
            self._reply(Reply(200, _NONSENSE if fault.body is None else fault.body))
        elif fault.action == "raw":
            self.wfile.write(fault.body or b"")
        elif fault.action == "long":
            self._begin((("Content-Type", "application/json"),))
            for piece in _long(fault.size):
                self._chunk(piece)
            self.wfile.write(b"0\r\n\r\n")

    def _hang(self, fault: Fault) -> None:
        while not self._left() and self.server.lasts(fault):
            self.gone.wait(_DRIP)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _long(size: int) -> Iterator[bytes]:
    yield b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[],"x":"'
    for _ in range(size >> 20):
        yield b"x" * (1 << 20)
    yield b'"}'
