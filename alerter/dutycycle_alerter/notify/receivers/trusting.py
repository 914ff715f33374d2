"""Connections to a server judged by a site's own authority: made anew where its file, or the proxy, has changed."""

from __future__ import annotations

import ssl
from pathlib import Path

from dutycycle_alerter.bounded_http import Connections, proxy_of
from dutycycle_alerter.credentials import version
from dutycycle_alerter.errors import SourceError


class Trusting:
    """Not for several threads at once. `timeout` is in seconds; with `proxied` they go through the proxy that the
    environment names, if any.
    """

    def __init__(self, timeout: float, ca_file: Path | None, *, proxied: bool = True) -> None:
        self._timeout = timeout
        self._ca_file = ca_file
        self._proxied = proxied
        self._made_for: object = None
        self._connections: Connections | None = None

    def connections(self, url: str) -> Connections:
        """For requests to that URL's server. Raises SourceError, also where `ca_file` cannot be used."""
        proxy = proxy_of(url) if self._proxied else None
        encrypted = url.startswith("https:")
        wanted = (version(self._ca_file), proxy, encrypted)
        if self._connections is None or wanted != self._made_for:
            self.close()
            self._connections = Connections(self._timeout, tls=_tls(self._ca_file) if encrypted else None, proxy=proxy)
            self._made_for = wanted
        return self._connections

    def close(self) -> None:
        """Let go of connections; it may be used again."""
        if self._connections is not None:
            self._connections.close()
        self._connections = None


def _tls(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:
        raise SourceError(f"ca_file {ca_file}: not usable: {error}") from error
