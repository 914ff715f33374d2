"""A program that takes POSTs, for receivers that tell programs, and a composer of plain words."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.notify.model import Brief, Parcel
from tests.alerter.notify.composer import SilentComposer


@dataclass(frozen=True)
class Heard:
    """A request. Header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Listening:
    """What was heard so far; `status` and `headers` are what the next requests are answered with."""

    url: str = ""
    requests: list[Heard] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@contextmanager
def listening() -> Iterator[Listening]:
    """A server on loopback."""
    heard = Listening()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.requests.append(Heard(self.path, {name.lower(): one for name, one in self.headers.items()}, body))
            self.send_response(heard.status)
            for name, one in heard.headers.items():
                self.send_header(name, one)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        heard.url = f"http://127.0.0.1:{server.server_port}/hooks/gpus"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield heard
        finally:
            server.shutdown()
            thread.join()


def is_signed(signature: str, body: bytes, key: str) -> bool:
    """Whether a webhook's `Dutycycle-Signature` is of this body, under this key."""
    parts = dict(part.partition("=")[::2] for part in signature.split(","))
    wanted = hmac.new(key.encode(), f"{parts.get('t', '')}.".encode() + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(parts.get("v1", ""), wanted)


@dataclass(frozen=True)
class PlainComposer(SilentComposer):
    """For programs alone: what is said is not what these tests are about."""

    said: Mapping[str, Any] = field(default_factory=dict)
    title: str = "All 8 GPUs are idle"
    url: str = ""

    def brief(self, parcel: Parcel) -> Brief:
        return Brief(self.title, "alice wastes 8 GPUs.\nCancel the job.", self.url)

    def annotations(self, incident: Incident) -> Mapping[str, str]:
        return {"summary": f"{incident.user}: {self.title}", "description": "Cancel the job."}

    def document(self, parcel: Parcel) -> Mapping[str, Any]:
        return {
            "incidents": [{"id": item.incident.id, "user": item.incident.user} for item in parcel.items],
            **self.said,
        }
