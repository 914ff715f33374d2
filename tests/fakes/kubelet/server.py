"""A kubelet's pod-resources service over HTTP/2 on a unix socket, which can be stopped, restarted and spoiled."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any, Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded
from h2.exceptions import H2Error

from .messages import list_reply, pod, schema

_OK, _UNKNOWN, _EXHAUSTED, _UNIMPLEMENTED, _INTERNAL = 0, 2, 8, 12, 13


class Fault(Enum):
    """What goes wrong from now on."""

    HANG = auto()
    """Takes the connection and says nothing at all."""
    HANG_AFTER_REQUEST = auto()
    HANG_AFTER_HEADERS = auto()
    """Sends headers and half of the message, and no more."""
    DRIP = auto()
    """Sends one byte of the reply now and then, for ever."""
    TRUNCATE = auto()
    """Closes in the middle of a DATA frame."""
    CLOSE = auto()
    GARBAGE = auto()
    HTTP1 = auto()
    GOAWAY = auto()
    RESET = auto()
    NO_STATUS = auto()
    """Ends without the trailer that says how the call went."""
    BAD_STATUS = auto()
    SHORT = auto()
    """The message is shorter than announced."""
    LONG = auto()
    COMPRESSED = auto()
    HTTP_503 = auto()
    NOT_GRPC = auto()
    BAD_MESSAGE = auto()
    """A message that is no protobuf, sent in good order."""


@dataclass(frozen=True)
class Reply:
    """A message, or a status and its text."""

    message: bytes = b""
    code: int = _OK
    text: str = ""


@dataclass
class _Call:
    path: str = ""
    body: bytearray = field(default_factory=bytearray)


class FakeKubelet:
    """Lists `pods` (PodResources messages) and one without a device, as there is on every node; none while it is
    `starting`; or whatever `raw` holds. `calls` are the methods that were called.

    With `rate_limit` it rejects as the kubelet does: a burst of 10, 100 a second.
    """

    def __init__(self, path: Path, *pods: Any, rate_limit: bool = False) -> None:
        self.path = path
        self.pods: list[Any] = list(pods)
        self.starting = False
        self.raw: bytes | None = None
        self.allocatable = b""
        self.fault: Fault | None = None
        self.calls: list[str] = []
        self.goodbye = threading.Event()
        self._rate_limit = rate_limit
        self._tokens, self._filled = 10.0, time.monotonic()
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def start(self) -> Self:
        """Binds the socket anew, in place of what is there, as a kubelet that begins does."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        self.goodbye = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(16)
        self._spawn(self._accept, self._listener)
        return self

    def stop(self) -> None:
        """The file stays, as it does when a kubelet is killed."""
        self.goodbye.set()
        if self._listener is not None:
            # Closing alone does not end an accept that is under way.
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def answer(self, method: str, request: bytes) -> Reply:
        """What a kubelet that holds these pods says."""
        service, _, name = method.strip("/").partition("/")
        if service not in ("v1.PodResourcesLister", "v1alpha1.PodResourcesLister"):
            return Reply(code=_UNIMPLEMENTED, text=f"unknown service {service}")
        if self._rate_limit and not self._admit():
            return Reply(code=_EXHAUSTED, text="rejected by rate limit")
        if name == "List":
            return self._parsed("ListPodResourcesRequest", request) or Reply(self._list())
        if name == "GetAllocatableResources":
            return self._parsed("AllocatableResourcesRequest", request) or Reply(self.allocatable)
        if name == "Get":
            return self._parsed("GetPodResourcesRequest", request) or self._get(request)
        return Reply(code=_UNIMPLEMENTED, text=f"unknown method {name} for service {service}")

    def _list(self) -> bytes:
        if self.raw is not None:
            return self.raw
        return b"" if self.starting else list_reply(*self.pods, pod("exporter", "monitoring"))

    def _get(self, request: bytes) -> Reply:
        wanted = schema()["GetPodResourcesRequest"].FromString(request)
        listed = schema()["ListPodResourcesResponse"].FromString(self._list()).pod_resources
        for one in listed:
            if (one.name, one.namespace) == (wanted.pod_name, wanted.pod_namespace):
                return Reply(schema()["GetPodResourcesResponse"](pod_resources=one).SerializeToString())
        text = f"pod {wanted.pod_name} in namespace {wanted.pod_namespace} not found"
        return Reply(code=_UNKNOWN, text=text)

    def _parsed(self, message: str, request: bytes) -> Reply | None:
        from google.protobuf.message import DecodeError

        try:
            schema()[message].FromString(request)
        except DecodeError:
            text = "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data"
            return Reply(code=_INTERNAL, text=text)
        return None

    def _admit(self) -> bool:
        now = time.monotonic()
        with self._lock:
            self._tokens = min(10.0, self._tokens + 100 * (now - self._filled))
            self._filled = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
        return True

    def _spawn(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(connection)
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self.fault is Fault.HANG:
                self.goodbye.wait()
            elif self.fault in (Fault.GARBAGE, Fault.HTTP1):
                connection.recv(65536)
                http1 = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
                connection.sendall(http1 if self.fault is Fault.HTTP1 else bytes(range(256)) * 64)
                self.goodbye.wait()
            else:
                _Connection(self, connection).run()
        except (OSError, H2Error):
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()


class _Connection:
    def __init__(self, kubelet: FakeKubelet, connection: socket.socket) -> None:
        self._kubelet = kubelet
        self._connection = connection
        self._http = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._calls: dict[int, _Call] = {}
        self._sending: dict[int, tuple[bytearray, list[tuple[str, str]]]] = {}

    def run(self) -> None:
        self._http.initiate_connection()
        self._flush()
        while data := self._connection.recv(65536):
            for event in self._http.receive_data(data):
                if isinstance(event, RequestReceived):
                    self._calls[event.stream_id] = _Call(path=dict(event.headers)[":path"])
                elif isinstance(event, DataReceived):
                    self._calls[event.stream_id].body += event.data
                    self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, StreamEnded):
                    self._answer(event.stream_id, self._calls.pop(event.stream_id))
            self._pump()

    def _answer(self, stream: int, call: _Call) -> None:
        self._kubelet.calls.append(call.path)
        fault = self._kubelet.fault
        if fault is Fault.HANG_AFTER_REQUEST:
            self._flush()
            self._kubelet.goodbye.wait()
        elif fault is Fault.CLOSE:
            raise ConnectionAbortedError
        elif fault is Fault.GOAWAY:
            self._http.close_connection(last_stream_id=0)
            self._flush()
            raise ConnectionAbortedError
        elif fault is Fault.RESET:
            self._http.reset_stream(stream, 2)
            return
        reply = self._kubelet.answer(call.path, bytes(call.body[5:]))
        status = "503" if fault is Fault.HTTP_503 else "200"
        kind = "text/html" if fault is Fault.NOT_GRPC else "application/grpc"
        headers = [(":status", status), ("content-type", kind)]
        trailers = [("grpc-status", str(reply.code)), ("grpc-message", reply.text)]
        if reply.code:
            # A call that fails before it has a message is answered by trailers alone.
            self._http.send_headers(stream, headers + trailers, end_stream=True)
            return
        self._http.send_headers(stream, headers)
        self._sending[stream] = self._spoiled(stream, fault, reply.message, trailers)

    def _spoiled(
        self, stream: int, fault: Fault | None, message: bytes, trailers: list[tuple[str, str]]
    ) -> tuple[bytearray, list[tuple[str, str]]]:
        message = b"\xff\xff\xff\xff" if fault is Fault.BAD_MESSAGE else message
        body = bytearray((fault is Fault.COMPRESSED).to_bytes() + len(message).to_bytes(4, "big") + message)
        if fault is Fault.HANG_AFTER_HEADERS:
            self._http.send_data(stream, bytes(body[: len(body) // 2])[:1000])
            self._flush()
            self._kubelet.goodbye.wait()
            raise ConnectionAbortedError
        if fault is Fault.DRIP:
            self._flush()
            # Settings without content, which are always in order.
            while not self._kubelet.goodbye.wait(0.02):
                self._connection.sendall(b"\0\0\0\x04\0\0\0\0\0")
            raise ConnectionAbortedError
        if fault is Fault.TRUNCATE:
            self._flush()
            self._connection.sendall(len(body).to_bytes(3, "big") + b"\0\0" + (1).to_bytes(4, "big") + body[:-1])
            raise ConnectionAbortedError
        if fault is Fault.SHORT:
            del body[-1:]
        elif fault is Fault.LONG:
            body += b"\0"
        elif fault is Fault.NO_STATUS:
            trailers = []
        elif fault is Fault.BAD_STATUS:
            trailers = [("grpc-status", "fine")]
        return body, trailers

    def _pump(self) -> None:
        """Sends as much as the client's windows allow."""
        for stream, (body, trailers) in list(self._sending.items()):
            while body:
                room = min(self._http.local_flow_control_window(stream), self._http.max_outbound_frame_size)
                if room <= 0:
                    break
                self._http.send_data(stream, bytes(body[:room]))
                del body[:room]
            if not body:
                del self._sending[stream]
                if trailers:
                    self._http.send_headers(stream, trailers, end_stream=True)
                else:
                    self._http.end_stream(stream)
            self._flush()
        self._flush()

    def _flush(self) -> None:
        data = self._http.data_to_send()
        if data:
            self._connection.sendall(data)
