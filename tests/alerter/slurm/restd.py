"""A double of slurmrestd, on loopback or on a unix socket: versions, tokens and refusals as the real one has them."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl"
UNKNOWN_URL = b"Unable find requested URL. Please view /openapi/v3 for API reference."

Reply = Callable[[dict[str, list[str]]], tuple[int, object]]


@dataclass
class Restd:
    """`replies` by the path behind the version, such as `slurm/jobs`. `calls` are the paths asked for, with queries."""

    url: str = ""
    versions: tuple[str, ...] = ("v0.0.38",)
    token: str = TOKEN
    replies: dict[str, Reply] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def says(self, path: str, document: object, status: int = 200) -> None:
        self.replies[path] = lambda query: (status, document)

    def answer(self, target: str, headers: dict[str, str]) -> tuple[int, object]:
        self.calls.append(target)
        self.headers.append(headers)
        parts = urlsplit(target)
        _, service, version, path = parts.path.split("/", 3)
        if version not in self.versions:
            return 404, UNKNOWN_URL
        given = headers.get("x-slurm-user-token")
        if given is None:
            return 401, b"Authentication failure"
        if given != self.token:
            error = {"description": "Failed while looking for jobs", "error": "Unspecified error", "error_number": -1}
            return 500, {"meta": {}, "errors": [error], "jobs": []}
        reply = self.replies.get(f"{service}/{path}")
        return reply(parse_qs(parts.query)) if reply else (404, UNKNOWN_URL)


@contextmanager
def restd(unix: Path | None = None) -> Iterator[Restd]:
    double = Restd()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = double.answer(self.path, {name.lower(): value for name, value in self.headers.items()})
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Connection", "Close")
            if status != 304:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if status != 304:
                self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

        def address_string(self) -> str:
            return "client"

    class Unix(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

    class Tcp(socketserver.ThreadingMixIn, socketserver.TCPServer):
        daemon_threads = True

    server = Unix(str(unix), Handler) if unix else Tcp(("127.0.0.1", 0), Handler)
    double.url = f"unix://{unix}" if unix else f"http://127.0.0.1:{server.socket.getsockname()[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield double
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
