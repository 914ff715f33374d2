"""Fetches an exporter's page over HTTP, bounded in time and size."""

from __future__ import annotations

from dutycycle_alerter.bounded_http import Connections
from dutycycle_alerter.errors import SourceError

MAX_BYTES = 64 * 2**20


class Fetcher:
    """Connections kept between scrapes, to as many hosts as `hosts`. Safe to use from several threads."""

    def __init__(self, timeout: float, *, hosts: int = 1) -> None:
        self._connections = Connections(timeout, hosts=hosts)

    def get(self, url: str) -> str:
        """The body as text. Raises SourceError; takes no longer than the time-out, even of a sender that drips."""
        if not url.lower().startswith(("http://", "https://")):
            raise SourceError(f"{url}: not a URL like http://gpu01:9836/metrics")
        answer = self._connections.request("GET", url, headers={"Accept": "text/plain"}, max_bytes=MAX_BYTES)
        if answer.status != 200:
            raise SourceError(f"{url}: answered {answer.status}")
        try:
            return answer.body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise SourceError(f"{url}: {error}") from error

    def close(self) -> None:
        """Close every connection."""
        self._connections.close()
