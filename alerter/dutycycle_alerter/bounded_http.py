"""HTTP exchanges that end: bounded in time as a whole and in size, redirects not followed, connections kept."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, ProtocolError

from dutycycle_alerter.errors import LateError, SourceError


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said, whatever its status. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connections:
    """Connections kept between requests, to as many hosts as `hosts`, `per_host` to each. Thread-safe.

    `timeout` is in seconds and for a whole exchange. `tls` is what a server's certificate is judged by (the system's
    authorities by default), `server_name` the name in it where that is not the URL's. With `unix_socket` every request
    goes to that socket, whatever host its URL names.
    """

    def __init__(
        self,
        timeout: float,
        *,
        hosts: int = 1,
        per_host: int = 2,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
        unix_socket: str | None = None,
    ) -> None:
        self._timeout = timeout
        self._pool = urllib3.PoolManager(
            max(1, hosts),
            retries=False,
            timeout=urllib3.Timeout(total=timeout),
            maxsize=per_host,
            ssl_context=tls,
            server_hostname=server_name,
        )
        self._pool.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}
        if unix_socket is not None:
            self._pool.pool_classes_by_scheme = {"http": partial(_UnixPool, unix_socket=unix_socket)}  # type: ignore[dict-item]

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        max_bytes: int,
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """The answer. Raises SourceError; takes no longer than the time-out, even of a sender that drips. `timeout`
        is this exchange's own, in seconds.

        `max_bytes` bounds the unpacked body. The request must be one that may be sent twice: a kept connection that
        the server closes in the same moment is no failure.
        """
        timeout = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + timeout
        try:
            try:
                return self._once(deadline, timeout, method, url, headers, max_bytes, body)
            except ProtocolError as error:
                if not _unanswered(error) or time.monotonic() > deadline:
                    raise
                return self._once(deadline, timeout, method, url, headers, max_bytes, body)
        except (HTTPError, OSError, ValueError) as error:
            if time.monotonic() > deadline:
                raise LateError(f"{url}: {_late(timeout)}") from error
            raise SourceError(f"{url}: {error}") from error

    def close(self) -> None:
        """Close every connection that is not in use."""
        self._pool.clear()

    def _once(
        self,
        deadline: float,
        timeout: float,
        method: str,
        url: str,
        headers: Mapping[str, str],
        max_bytes: int,
        body: bytes | None,
    ) -> Answer:
        response = self._pool.request(
            method,
            url,
            body=body,
            headers=dict(headers),
            redirect=False,
            preload_content=False,
            timeout=urllib3.Timeout(total=max(0.001, deadline - time.monotonic())),
        )
        try:
            with cut_off(deadline - time.monotonic(), response.shutdown):
                content = _read(response, max_bytes)
        except BaseException:
            response.close()  # a connection with an unread rest cannot be used again
            raise
        response.release_conn()
        if time.monotonic() > deadline:
            # A body without a length ends where the connection does, also where it was cut off.
            raise LateError(f"{url}: {_late(timeout)}")
        return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, content)


def _late(timeout: float) -> str:
    return f"no complete answer within {round(timeout, 2):g} s"


def _unanswered(error: ProtocolError) -> bool:
    """Whether the connection was closed before a byte of the answer came."""
    cause = error.args[1] if len(error.args) > 1 else None
    return isinstance(cause, ConnectionResetError | BrokenPipeError)


def _read(response: urllib3.BaseHTTPResponse, max_bytes: int) -> bytes:
    chunks, size = [], 0
    for chunk in response.stream(2**16, decode_content=True):
        size += len(chunk)
        chunks.append(chunk)
        if size > max_bytes:
            raise ValueError(f"the answer is larger than {max_bytes / 2**20:g} MiB")
    return b"".join(chunks)


class _HTTPConnection(HTTPConnection):
    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]  # as in urllib3
        with cut_off(self.timeout, partial(self.sock.shutdown, socket.SHUT_RD)):
            return super().getresponse()


class _HTTPSConnection(HTTPSConnection):
    _opened: socket.socket | None = None

    def connect(self) -> None:
        try:
            # The handshake is an exchange too, and may drip.
            with cut_off(self.timeout, self._shut):
                super().connect()
        finally:
            if self._opened is not None:
                self._opened.close()

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]  # as in urllib3
        with cut_off(self.timeout, partial(self.sock.shutdown, socket.SHUT_RD)):
            return super().getresponse()

    def _new_conn(self) -> socket.socket:
        made = super()._new_conn()
        self._opened = made.dup()  # wrapping it in TLS takes the connection away from the object
        return made

    def _shut(self) -> None:
        if self._opened is not None:
            self._opened.shutdown(socket.SHUT_RDWR)


class _UnixConnection(_HTTPConnection):
    def __init__(self, *arguments: Any, unix_socket: str, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._unix_socket = unix_socket

    def _new_conn(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(self.timeout)
            made.connect(self._unix_socket)
        except BaseException:
            made.close()
            raise
        return made


class _UnixPool(HTTPConnectionPool):
    ConnectionCls = _UnixConnection


class _HTTPPool(HTTPConnectionPool):
    ConnectionCls = _HTTPConnection


class _HTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _HTTPSConnection

    def _validate_conn(self, conn: Any) -> None:
        # urllib3's own also warns at every request of what the configuration says on purpose: that nothing is verified.
        if conn.is_closed:
            conn.connect()


def bound(pool: urllib3.PoolManager) -> None:
    """Has a pool that somebody else made bound the beginnings of its exchanges as these here are: its time-out for a
    wait is then also that for a handshake, and for all headers of an answer.
    """
    if type(pool) in (urllib3.PoolManager, urllib3.ProxyManager):
        pool.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}


@contextmanager
def cut_off(seconds: float | None, shutdown: Callable[[], None]) -> Iterator[None]:
    """Shut the connection down if the block lasts longer.

    A socket's own time-out starts anew with every byte that arrives, so a sender of one byte a second never exceeds it.
    """

    def cut() -> None:
        with suppress(OSError, ValueError, RuntimeError):  # it has just ended by itself
            shutdown()

    timer = threading.Timer(max(0.0, seconds or 0.0), cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
