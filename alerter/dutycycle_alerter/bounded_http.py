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
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, ProtocolError

from dutycycle_alerter.errors import LateError, SourceError
from dutycycle_alerter.printable import printable

_LONGEST = 500
"""Characters of what was wrong with an answer: a line that is none is quoted in it, and has up to 64 kB."""


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
    goes to that socket, whatever host its URL names; with `proxy`, through that proxy (`proxy_of`).
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
        proxy: str | None = None,
    ) -> None:
        self._timeout = timeout
        make = urllib3.PoolManager if proxy is None else partial(_through, proxy)
        self._pool = make(
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
        only_status: bool = False,
        repeat: bool = True,
    ) -> Answer:
        """The answer. Raises SourceError; takes no longer than the time-out, even of a sender that drips. `timeout`
        is this exchange's own, in seconds.

        `max_bytes` bounds the unpacked body. With `only_status` an answer that says yes (2xx) is complete without its
        body, and its connection is not kept: what comes after it does not undo it. The request must be one that may
        be sent twice: a kept connection that the server closes in the same moment is no failure. One that must not be
        is sent once without `repeat`, and its connection is not kept.
        """
        timeout = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + timeout
        if not repeat:
            headers = {**headers, "Connection": "close"}
        try:
            try:
                return self._once(deadline, timeout, method, url, headers, max_bytes, body, only_status, repeat)
            except ProtocolError as error:
                if not repeat or not _unanswered(error) or time.monotonic() > deadline:
                    raise
                return self._once(deadline, timeout, method, url, headers, max_bytes, body, only_status, repeat)
        except (HTTPError, OSError, ValueError) as error:
            if time.monotonic() > deadline:
                raise LateError(f"{url}: {_late(timeout)}") from error
            raise SourceError(f"{url}: {printable(str(error), _LONGEST)}") from error

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
        only_status: bool,
        keep: bool,
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
        connection = response.connection  # which the response has no more when it is read
        headers_said = {name.lower(): value for name, value in response.headers.items()}
        if only_status and 200 <= response.status < 300:
            response.close()
            if time.monotonic() > deadline:
                raise LateError(f"{url}: {_late(timeout)}")  # headers that were cut off look complete
            return Answer(response.status, headers_said, b"")
        try:
            with cut_off(deadline - time.monotonic(), response.shutdown):
                content = _read(response, max_bytes)
        except BaseException:
            response.close()  # a connection with an unread rest cannot be used again
            raise
        response.release_conn()
        if connection is not None and not keep:
            # A server that closes it need not say so, and the next request would race with that.
            connection.close()
        if time.monotonic() > deadline:
            # A body without a length ends where the connection does, also where it was cut off.
            raise LateError(f"{url}: {_late(timeout)}")
        return Answer(response.status, headers_said, content)


def proxy_of(url: str) -> str | None:
    """The proxy that the environment names for a URL (HTTPS_PROXY, HTTP_PROXY, NO_PROXY); None where it names none.
    Raises SourceError where what it names is no proxy.
    """
    parts = urlsplit(url)
    named = getproxies().get(parts.scheme)
    if not named or proxy_bypass(parts.hostname or ""):
        return None
    proxy = named if "://" in named else f"http://{named}"
    if not _is_proxy(proxy):
        # Not what it says: there may be a password in it.
        raise SourceError(f"{parts.scheme.upper()}_PROXY: expected a URL like http://proxy.example.org:3128")
    return proxy


def _is_proxy(url: str) -> bool:
    try:
        parts = urllib3.util.parse_url(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.host)


def _through(proxy: str, hosts: int, **keywords: Any) -> urllib3.ProxyManager:
    auth = urllib3.util.parse_url(proxy).auth
    headers: dict[str, str] = {}
    if auth is not None:
        # In Latin-1, as it would be by itself, not every name and password can be written.
        headers = urllib3.util.make_headers(proxy_basic_auth=unquote(auth), proxy_basic_auth_encoding="utf-8")
    return urllib3.ProxyManager(proxy, hosts, proxy_headers=headers, **keywords)


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
