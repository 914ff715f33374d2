"""An API server that knows pods and resource slices of nodes, answers as the real one does, and can be spoiled."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

_ANONYMOUS = 'pods is forbidden: User "system:anonymous" cannot list resource "pods" at the cluster scope'
_REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 410: "Expired", 429: "TooManyRequests"}


def certificate(directory: Path) -> tuple[Path, Path] | None:
    """A certificate of its own authority for 127.0.0.1 and its key; None where there is no openssl."""
    if shutil.which("openssl") is None:
        return None
    chain, key = directory / "tls.crt", directory / "tls.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=api", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(chain)),
        ],
        check=True,
        capture_output=True,
    )
    return chain, key


class FakeApiServer:
    """Serves `pods` and `slices` (objects as in JSON) by their node. `requests` are the targets that were asked for.

    `token` is the one that is believed. `status` answers everything with an error; `raw` are bytes that are sent in
    place of an answer, `body` what is sent with a 200. While `hang` is set nothing is answered; with `drip` the answer
    comes a byte at a time, for ever.
    """

    def __init__(self, *, tls: tuple[Path, Path] | None = None, versions: tuple[str, ...] = ("v1",)) -> None:
        self.pods: list[dict[str, Any]] = []
        self.slices: list[dict[str, Any]] = []
        self.versions = versions
        self.token = "good"
        self.status: int | None = None
        self.raw: bytes | None = None
        self.body: bytes | None = None
        self.hang = False
        self.drip = False
        self.requests: list[str] = []
        self.goodbye = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake = self
        self._scheme = "http"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.goodbye.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(
        self, name: str, uid: str, *, namespace: str = "ml", node: str = "gpu-real-0", **fields: Any
    ) -> dict[str, Any]:
        """A running pod; `phase`, `start`, `annotations` and `labels` as told. Another of that name is replaced."""
        self.remove(name, namespace)
        pod = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid,
                "creationTimestamp": "2026-11-20T22:14:13Z",
                "annotations": fields.get("annotations", {}),
                "labels": fields.get("labels", {}),
                "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:phase": {}}}}],
            },
            "spec": {"nodeName": node, "containers": [{"name": "main"}]},
            "status": {
                "phase": fields.get("phase", "Running"),
                "startTime": fields.get("start", "2026-11-20T22:14:14Z"),
            },
        }
        self.pods.append(pod)
        return pod

    def remove(self, name: str, namespace: str = "ml") -> None:
        self.pods = [
            pod for pod in self.pods if (pod["metadata"]["namespace"], pod["metadata"]["name"]) != (namespace, name)
        ]

    def answer(self, target: str, authorization: str | None) -> tuple[int, bytes]:
        """What a server that holds these objects says."""
        if self.status is not None:
            return self.status, _status(self.status, _REASONS.get(self.status, "InternalError"))
        if authorization is None:
            return 403, _status(403, _ANONYMOUS)
        if authorization != f"Bearer {self.token}":
            return 401, _status(401, "Unauthorized")
        parts = urlsplit(target)
        node = parse_qs(parts.query).get("fieldSelector", [""])[0].removeprefix("spec.nodeName=")
        if unquote(parts.path) == "/api/v1/pods":
            return 200, _list("Pod", "v1", [pod for pod in self.pods if pod["spec"]["nodeName"] == node])
        if parts.path in {f"/apis/resource.k8s.io/{version}/resourceslices" for version in self.versions}:
            found = [one for one in self.slices if one["spec"]["nodeName"] == node]
            return 200, _list("ResourceSlice", parts.path.split("/")[3], found)
        return 404, b"404 page not found\n"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    fake: FakeApiServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away in the middle are what the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        fake = self.server.fake
        fake.requests.append(self.path)
        if fake.hang:
            fake.goodbye.wait()
            self.close_connection = True
            return
        if fake.raw is not None:
            self.wfile.write(fake.raw)
            self.close_connection = True
            return
        status, body = fake.answer(self.path, self.headers.get("Authorization"))
        if fake.body is not None:
            body = fake.body
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in self._chunks(body):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    def _chunks(self, body: bytes) -> Iterator[bytes]:
        fake = self.server.fake
        if fake.drip:
            while not fake.goodbye.wait(0.02):
                yield b" "
        for start in range(0, len(body), 1 << 16):
            yield body[start : start + (1 << 16)]

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _list(kind: str, version: str, items: list[dict[str, Any]]) -> bytes:
    metadata = {"resourceVersion": "752"}
    return json.dumps({"kind": f"{kind}List", "apiVersion": version, "metadata": metadata, "items": items}).encode()


def _status(code: int, message: str) -> bytes:
    fields = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return json.dumps({**fields, "reason": _REASONS.get(code, "InternalError"), "code": code}).encode()
