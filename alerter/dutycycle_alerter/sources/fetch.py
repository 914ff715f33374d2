"""Fetches an exporter's page over HTTP, bounded in time and size."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from dutycycle_alerter.errors import SourceError

MAX_BYTES = 64 * 2**20


class Fetcher:
    """Connections kept between scrapes, to as many hosts as `hosts`. Safe to use from several threads."""

    def __init__(self, timeout: float, *, hosts: int = 1) -> None:
        self._timeout = timeout
        self._pool = urllib3.PoolManager(
            max(1, hosts), retries=False, timeout=urllib3.Timeout(total=timeout), maxsize=2
        )
        self._pool.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}

    def get(self, url: str) -> str:
        """The body as text. Raises SourceError; takes no longer than the time-out, even of a sender that drips."""
        if not url.lower().startswith(("http://", "https://")):
            raise SourceError(f"{url}: not a URL like http://gpu01:9836/metrics")
        deadline = time.monotonic() + self._timeout
        try:
            response = self._pool.request(
                "GET", url, redirect=False, preload_content=False, headers={"Accept": "text/plain"}
            )
            try:
                with _cut_off(deadline - time.monotonic(), response.shutdown):
                    content = _read(response)
            except BaseException:
                response.close()  # a connection with an unread rest cannot be used again
                raise
            response.release_conn()
            if time.monotonic() > deadline:
                # A body without a length ends where the connection does, also where it was cut off.
                raise SourceError(f"{url}: {self._late}")
            if response.status != 200:
                raise SourceError(f"{url}: answered {response.status}")
            return content.decode("utf-8")
        except (HTTPError, OSError, ValueError) as error:
            reason = self._late if time.monotonic() > deadline else error
            raise SourceError(f"{url}: {reason}") from error

    @property
    def _late(self) -> str:
        return f"no complete answer within {self._timeout:g} s"

    def close(self) -> None:
        """Close every connection."""
        self._pool.clear()


def _read(response: urllib3.BaseHTTPResponse) -> bytes:
    chunks, size = [], 0
    for chunk in response.stream(2**16, decode_content=True):
        size += len(chunk)
        chunks.append(chunk)
        if size > MAX_BYTES:
            raise ValueError(f"the answer is larger than {MAX_BYTES >> 20} MiB")
    return b"".join(chunks)


class _HTTPConnection(HTTPConnection):
    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]  # as in urllib3
        with _cut_off(self.timeout, partial(self.sock.shutdown, socket.SHUT_RD)):
            return super().getresponse()


class _HTTPSConnection(HTTPSConnection):
    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]  # as in urllib3
        with _cut_off(self.timeout, partial(self.sock.shutdown, socket.SHUT_RD)):
            return super().getresponse()


class _HTTPPool(HTTPConnectionPool):
    ConnectionCls = _HTTPConnection


class _HTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _HTTPSConnection


@contextmanager
def _cut_off(seconds: float | None, shutdown: Callable[[], None]) -> Iterator[None]:
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
