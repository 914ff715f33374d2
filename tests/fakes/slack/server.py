"""Slack's Web API and incoming webhooks over HTTP on a port of this machine, which can be told to misbehave.

with SlackServer() as slack:
    channel = slack.workspace.add_channel("gpus")
    ...                                          # url, token: for the settings; webhook(channel): a webhook's URL
    slack.fail("chat.postMessage", refused("internal_error"), times=2)
    slack.fail("chat.*", limited(30))
    slack.fail("chat.postMessage", Cut.CLOSE, performed=True)        # done, and the answer is lost
    channel.heads, channel.replies(ts), slack.calls
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, urlsplit

from .workspace import Channel, RefusedError, Workspace

TOKEN = "xoxb-000-secret-of-the-bot"


@dataclass(frozen=True)
class Answer:
    """An answer of HTTP, to the byte."""

    status: int = 200
    body: bytes = b"{}"
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json; charset=utf-8"),)


class Cut(Enum):
    """No answer, or not all of it."""

    CLOSE = auto()
    """Closes the connection without a byte."""
    HANG = auto()
    """Says nothing until the server ends."""
    HALF = auto()
    """Closes in the middle of a body whose length it announced."""
    DRIP = auto()
    """Sends a byte of the body now and then."""
    ENDLESS = auto()
    """Sends a body that does not end."""


def refused(error: str, **fields: Any) -> Answer:
    """`ok: false` with this error."""
    return Answer(body=json.dumps({"ok": False, "error": error} | fields).encode())


def limited(after: object, *, status: int = 429) -> Answer:
    """Too many requests; `after` is the Retry-After, None leaves it out."""
    headers = () if after is None else (("Retry-After", str(after)),)
    return Answer(status, b'{"ok": false, "error": "ratelimited"}', headers)


@dataclass
class _Fault:
    pattern: str
    answer: Answer | Cut
    times: int | None
    performed: bool
    skip: int


@dataclass(frozen=True)
class Call:
    """A request that came: `method` of the Web API, or `webhook`."""

    method: str
    arguments: Mapping[str, Any]
    headers: Mapping[str, str]


class SlackServer:
    """One workspace with one bot. Thread-safe."""

    def __init__(self) -> None:
        self.workspace = Workspace()
        self.token = TOKEN
        self.calls: list[Call] = []
        self.connections = 0
        self._hooks: dict[str, Channel] = {}
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._http = _Server(("127.0.0.1", 0), _handler(self))
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
        """The Web API's, with `/` at its end."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/api/"

    def webhook(self, channel: Channel) -> str:
        """A new webhook's URL, whose last part is secret."""
        path = f"/services/T00000001/B{len(self._hooks):08d}/secretOfTheHook{len(self._hooks)}"
        self._hooks[path] = channel
        return f"http://127.0.0.1:{self._http.server_address[1]}{path}"

    def remove_webhook(self, url: str) -> None:
        """Its app was removed from the workspace."""
        del self._hooks["/" + url.split("/", 3)[3]]

    def fail(
        self, method: str, answer: Answer | Cut, *, times: int | None = 1, performed: bool = False, skip: int = 0
    ) -> None:
        """From now on, calls of methods that `method` matches (a shell pattern, `webhook` for webhooks) are answered
        so: `times` of them (None: all), after `skip` that are not. With `performed` what was asked is done first.
        """
        with self._lock:
            self._faults.append(_Fault(method, answer, times, performed, skip))

    def mend(self) -> None:
        """No more faults."""
        with self._lock:
            self._faults.clear()

    def methods(self) -> list[str]:
        """The methods that were called, in order."""
        return [call.method for call in self.calls]

    def respond(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer | Cut:
        """The answer to a request."""
        hook = path.startswith("/services/")
        method = "webhook" if hook else path.removeprefix("/api/")
        try:
            arguments = _arguments(headers.get("content-type", ""), body)
        except ValueError:
            return Answer(400, b"invalid_payload", ()) if hook else refused("invalid_json")
        with self._lock:
            self.calls.append(Call(method, arguments, headers))
            fault = self._fault(method)
            if fault is not None and not fault.performed:
                return fault.answer
            answer = self._hooked(path, arguments) if hook else self._called(method, headers, arguments)
            return answer if fault is None else fault.answer

    def _fault(self, method: str) -> _Fault | None:
        for fault in self._faults:
            if fnmatch(method, fault.pattern) and fault.times != 0:
                if fault.skip:
                    fault.skip -= 1
                    return None
                fault.times = None if fault.times is None else fault.times - 1
                return fault
        return None

    def _called(self, method: str, headers: Mapping[str, str], arguments: Mapping[str, Any]) -> Answer:
        said = headers.get("authorization", "")
        if said != f"Bearer {self.token}":
            return refused("invalid_auth" if said else "not_authed")
        try:
            return Answer(body=json.dumps(self.workspace.call(method, arguments)).encode())
        except RefusedError as error:
            return Answer(body=json.dumps(error.answer).encode())

    _HOOK_STATUS: ClassVar = {"channel_is_archived": 410}

    def _hooked(self, path: str, arguments: Mapping[str, Any]) -> Answer:
        if path not in self._hooks:
            return Answer(404, b"no_service", (("Content-Type", "text/html"),))
        try:
            self.workspace.hook(self._hooks[path], arguments)
        except RefusedError as error:
            return Answer(self._HOOK_STATUS.get(error.args[0], 400), error.args[0].encode(), ())
        return Answer(body=b"ok", headers=(("Content-Type", "text/html"),))

    def cut(self, how: Cut, connection: socket.socket) -> None:
        """Does to a connection what `how` says."""
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
        with suppress(OSError):
            match how:
                case Cut.HANG:
                    self._over.wait()
                case Cut.HALF:
                    connection.sendall(head + b'Content-Length: 1000\r\n\r\n{"ok": tr')
                case Cut.DRIP:
                    connection.sendall(head + b"\r\n")
                    while not self._over.wait(0.02):
                        connection.sendall(b" ")
                case Cut.ENDLESS:
                    connection.sendall(head + b"\r\n")
                    while not self._over.is_set():
                        connection.sendall(b" " * 2**16)
                case Cut.CLOSE:
                    pass
            connection.shutdown(socket.SHUT_RDWR)


def _arguments(kind: str, body: bytes) -> dict[str, Any]:
    """Of a form or of JSON. Raises ValueError."""
    text = body.decode("utf-8")
    if not text or not kind.startswith("application/json"):
        return dict(parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text)))
    said = json.loads(text)
    return dict(said.items()) if isinstance(said, dict) else {}


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True


def _handler(slack: SlackServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        timeout = 60

        def setup(self) -> None:
            slack.connections += 1
            super().setup()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = slack.respond(urlsplit(self.path).path, headers, body)
            if isinstance(answer, Cut):
                self.close_connection = True
                slack.cut(answer, self.connection)
                return
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    return Handler
