"""Fetches an exporter's page over HTTP, bounded in time and size."""

from __future__ import annotations

import threading
from functools import partial

from dutycycle_alerter.bounded_http import Connections
from dutycycle_alerter.errors import SourceError

MAX_BYTES = 64 * 2**20


class Fetcher:
    """Connections kept between scrapes, to as many hosts as `hosts`. Safe to use from several threads."""

    def __init__(self, timeout: float, *, hosts: int = 1) -> None:
        self._make = partial(Connections, timeout, hosts=hosts)
        self._connections = {"": self._make()}
        self._lock = threading.Lock()

    def get(self, url: str, *, host: str = "") -> str:
        """The body as text. Raises SourceError; takes no longer than the time-out, even of a sender that drips.

        `host` is who is meant where the URL has its address: the Host header, and the name in its certificate.
        """
        if not url.lower().startswith(("http://", "https://")):
            raise SourceError(f"{url}: not a URL like http://gpu01:9836/metrics")
        headers = {"Accept": "text/plain"} | ({"Host": host} if host else {})
        answer = self._to(host).request("GET", url, headers=headers, max_bytes=MAX_BYTES)
        if answer.status != 200:
            raise SourceError(f"{url}: answered {answer.status}")
        try:
            return answer.body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise SourceError(f"{url}: {error}") from error

    def close(self) -> None:
        """Close every connection."""
        for connections in self._connections.values():
            connections.close()

    def _to(self, host: str) -> Connections:
        with self._lock:
            if host not in self._connections:
                self._connections[host] = self._make(server_name=host.rpartition(":")[0] or host)
            return self._connections[host]
