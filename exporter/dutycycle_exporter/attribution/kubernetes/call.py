"""One unary gRPC call over a unix socket: the HTTP/2 is h2's, the few bytes that gRPC adds are here.

A connection serves one call. The kubelet is asked every few seconds, and one that was restarted is simply met anew.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings

from dutycycle_exporter.attribution.errors import UnusableError

_CODES = (
    *("ok", "cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists"),
    *("permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented"),
    *("internal", "unavailable", "data_loss", "unauthenticated"),
)
"""By number: https://grpc.io/docs/guides/status-codes/"""
_PREFIX = 5
_CHUNK = 65536
_WINDOW = 1 << 20
_STREAM = 1


def call(path: Path, method: str, request: bytes, *, timeout: float, limit: int) -> bytearray:
    """The reply's message, within `timeout` seconds all told and of at most `limit` bytes.

    Raises UnusableError: missing, permission, refused, unreadable, timeout, closed, protocol, too_large, or
    `grpc_<code>`, the status that the server gave.
    """
    deadline = time.monotonic() + timeout
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
            connection.settimeout(timeout)
            connection.connect(str(path))
            exchange = _Exchange(method, request, timeout, limit)
            connection.sendall(exchange.outgoing())
            while not exchange.ended:
                connection.settimeout(_left(deadline))
                data = connection.recv(_CHUNK)
                if not data:
                    raise UnusableError("closed")
                exchange.receive(data)
                if not exchange.ended:
                    connection.settimeout(_left(deadline))
                    connection.sendall(exchange.outgoing())
            return exchange.message()
    except TimeoutError as error:
        raise UnusableError("timeout") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnusableError("missing") from error
    except PermissionError as error:
        raise UnusableError("permission") from error
    except (ConnectionRefusedError, BlockingIOError) as error:
        # A full backlog says "try again": somebody listens and does not accept.
        raise UnusableError("refused") from error
    except ConnectionError as error:
        raise UnusableError("closed") from error
    except OSError as error:
        raise UnusableError("unreadable") from error


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _Exchange:
    """The call's state, bytes in and bytes out. Raises UnusableError as `call` does."""

    def __init__(self, method: str, request: bytes, timeout: float, limit: int) -> None:
        self._limit = limit
        self._body = bytearray()
        self._headers: dict[str, str] = {}
        self.ended = False
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._http.local_settings = Settings(
            initial_values={SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW}
        )
        self._http.initiate_connection()
        self._http.increment_flow_control_window(_WINDOW)
        self._http.send_headers(
            _STREAM,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", method),
                (":authority", "localhost"),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("grpc-timeout", f"{max(1, round(timeout * 1000))}m"),
                ("user-agent", "dutycycle-exporter"),
            ],
        )
        self._http.send_data(_STREAM, b"\0" + len(request).to_bytes(4, "big") + request, end_stream=True)

    def outgoing(self) -> bytes:
        """What is to be sent now."""
        return self._http.data_to_send()

    def receive(self, data: bytes) -> None:
        """Takes what has come."""
        try:
            self._handle(self._http.receive_data(data))
        except (H2Error, UnicodeError) as error:
            raise UnusableError("protocol") from error

    def message(self) -> bytearray:
        """The reply, once the exchange has ended."""
        if self._headers.get(":status") != "200" or not self._headers.get("content-type", "").startswith(
            "application/grpc"
        ):
            raise UnusableError("protocol")
        status = self._headers.get("grpc-status", "")
        if status != "0":
            if not (status.isascii() and status.isdigit()):
                raise UnusableError("protocol")
            code = int(status[:3])
            raise UnusableError(f"grpc_{_CODES[code] if code < len(_CODES) else 'unknown'}")
        # A compressed message would have a 1 here; nobody was told that one is understood.
        if len(self._body) < _PREFIX or self._body[0] != 0 or self._announced() != len(self._body) - _PREFIX:
            raise UnusableError("protocol")
        del self._body[:_PREFIX]
        return self._body

    def _handle(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, ResponseReceived | TrailersReceived):
                for name, value in event.headers or ():
                    self._headers[str(name)] = str(value)
            elif isinstance(event, DataReceived):
                self._take(event)
            elif isinstance(event, StreamEnded):
                self.ended = True
            elif isinstance(event, StreamReset | ConnectionTerminated) and not self.ended:
                raise UnusableError("closed")

    def _take(self, event: DataReceived) -> None:
        self._body += event.data or b""
        if len(self._body) >= _PREFIX and self._announced() > self._limit:
            raise UnusableError("too_large")
        if len(self._body) > self._limit + _PREFIX:
            raise UnusableError("too_large")
        if event.flow_controlled_length:
            self._http.acknowledge_received_data(event.flow_controlled_length, _STREAM)

    def _announced(self) -> int:
        return int.from_bytes(self._body[1:_PREFIX], "big")
