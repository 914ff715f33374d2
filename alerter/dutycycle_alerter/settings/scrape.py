"""The `scrape` source: the alerter reads the exporters itself."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from dutycycle_alerter.scale import write_duration
from dutycycle_alerter.settings.types import WINDOWS, Duration, RealDuration, Section

COARSEST = WINDOWS[0] / 3
"""Points of counters may lie this far apart in seconds: the shortest window still has three."""


def _http_url(url: str) -> str:
    if not re.fullmatch(r"(dns\+)?https?://[^/\s]\S*", url):
        raise ValueError(
            "a target is a URL like http://gpu01:9836/metrics or dns+http://exporters.example.org:9836/metrics"
        )
    if url.startswith("dns+") and not _names_a_host(url):
        raise ValueError(
            "dns+ is followed by a URL with a host's name, like dns+http://exporters.example.org:9836/metrics"
        )
    return url


def _names_a_host(url: str) -> bool:
    try:
        parts = urlsplit(url.removeprefix("dns+"))
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return named and "@" not in parts.netloc and ":" not in (parts.hostname or "")


def _fine_enough(seconds: float) -> float:
    if seconds > COARSEST:
        raise ValueError(f"must not be longer than {write_duration(COARSEST)}: the shortest window needs points within")
    return seconds


def _long_enough(seconds: float) -> float:
    if seconds < WINDOWS[-1]:
        raise ValueError(f"must not be shorter than {write_duration(WINDOWS[-1])}, the longest window of the rules")
    return seconds


class ScrapeSource(Section):
    """Scrapes the exporters itself: one box, no Prometheus."""

    targets: tuple[Annotated[str, AfterValidator(_http_url)], ...] = ("http://127.0.0.1:9836/metrics",)
    """The exporters' pages. `dns+http://NAME:PORT/metrics` (also `dns+https`) stands for one at every address of the
    name, which is resolved again at each scrape.
    """
    interval: Duration = 15
    """Time between two scrapes; the exporter's --series-hold is twice this."""
    timeout: RealDuration = 5
    """How long one answer may take."""
    resolution: Annotated[Duration, AfterValidator(_fine_enough)] = 60
    """One row of counters is kept for each of these; 5m at most."""
    retention: Annotated[Duration, AfterValidator(_long_enough)] = 7 * 86400
    """Rows older than this are deleted, 24h at least are kept; the usage ledger stays."""
