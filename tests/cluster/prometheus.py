"""The Prometheus of the site: real, and it may lose its memory for a while."""

from __future__ import annotations

import urllib.parse
import urllib.request
from collections.abc import Iterable
from pathlib import Path

from tests.prometheus.server import PrometheusServer


class ForgetfulPrometheus(PrometheusServer):
    """Scrapes `targets`, until it is told to forget them and all that they ever said."""

    def __init__(self, directory: Path, targets: Iterable[str], *, interval: str) -> None:
        self._targets = tuple(targets)
        super().__init__(directory, targets=self._targets, interval=interval)
        self._kept = self.data

    def forget(self) -> None:
        """Restarts with an empty disk and nothing to scrape: every query is answered, with nothing."""
        self._restart(self.directory / "empty", ())

    def remember(self) -> None:
        """Restarts with all that it knew before."""
        self._restart(self._kept, self._targets)

    def answer(self, query: str) -> str:
        """What it says to an instant query, as JSON."""
        body = urllib.parse.urlencode({"query": query}).encode()
        with urllib.request.urlopen(f"{self.url}/api/v1/query", body, timeout=60) as response:
            return str(response.read().decode())

    def _restart(self, data: Path, targets: Iterable[str]) -> None:
        self.stop()
        self.data = data
        self.configure(targets)
        self.start()
