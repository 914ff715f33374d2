"""The site's Prometheus: on a small disk, over TLS, behind a link, and it can be killed and emptied."""

from __future__ import annotations

import json
import shutil
import ssl
import time
import urllib.parse
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tests.prometheus.server import PrometheusServer

from .certificates import Authority
from .disks import SmallDisk
from .fetching import fetch
from .served import Served

_MEGABYTES = 300
_OLDEST = "prometheus_tsdb_lowest_timestamp_seconds "


class Prometheus(Served):
    """A context manager. Scrapes `targets` over TLS, each `interval` wall seconds."""

    def __init__(self, directory: Path, targets: Iterable[str], authority: Authority, interval: float) -> None:
        self._context = ssl.create_default_context(cafile=str(authority.chain))
        directory.mkdir()
        self.certificate = authority.certificate("prometheus")
        tls = f"tls_config: {{ca_file: '{authority.chain}'}}"
        self.server = PrometheusServer(
            directory,
            targets=tuple(targets),
            interval=f"{round(1000 * interval)}ms",
            scrape=f"honor_labels: true\nscheme: https\n{tls}",
            web_config=self.certificate.write_web_config(),
            scheme="https",
            flags=("--storage.tsdb.wal-segment-size=10MB",),
        )
        self.server.data.mkdir()
        self.disk = SmallDisk(self.server.data, _MEGABYTES)
        super().__init__("prometheus", self.server, self.disk)
        self._made = time.time()
        self._before: dict[str, tuple[float, ...]] = {}

    def empty(self) -> None:
        """It has lost all that it knew, and goes on scraping. When it had scraped is remembered here."""
        with suppress(OSError):
            self._before = self.scrapes(self._made, time.time())
        self.server.kill()
        for path in self.server.data.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.server.start()

    def revive(self) -> None:
        """Start it where it ended by itself, as it may when its disk is full."""
        if self.server.ended():
            self.server.stop()
            self.server.start()

    def oldest(self) -> float:
        """Since when (Unix seconds) it knows anything; for ever where it knows nothing."""
        [line] = [line for line in self._get("/metrics").splitlines() if line.startswith(_OLDEST)]
        return float(line.removeprefix(_OLDEST))

    def scrapes(self, since: float, until: float) -> dict[str, tuple[float, ...]]:
        """When each target was scraped and answered, oldest first, of what it has and had when it was emptied."""
        query = urllib.parse.urlencode({"query": f"up[{round(1000 * (until - since))}ms]", "time": f"{until:.3f}"})
        series = json.loads(self._get(f"/api/v1/query?{query}"))["data"]["result"]
        has = {one["metric"]["instance"]: [float(at) for at, up in one["values"] if up == "1"] for one in series}
        had = {target: [at for at in times if since <= at <= until] for target, times in self._before.items()}
        return {target: (*had.get(target, ()), *has.get(target, ())) for target in sorted(had.keys() | has.keys())}

    def _get(self, path: str) -> str:
        """What it answers. Raises OSError where it does not, or with an error."""
        status, text = fetch(self.server.url + path, timeout=10, context=self._context)
        if status != 200:
            raise OSError(f"{path}: {status}")
        return text
