"""Whether Prometheus kept pace: what its own `up` says of when each target was scraped."""

from __future__ import annotations

import time

from tests.dashboards.answers.asking import instant

from .watch import overdue


def all_up(url: str, targets: int) -> bool:
    """Whether every target was scraped well at last."""
    found = instant(url, "count(up == 1)", time.time())
    return bool(found) and int(float(found[0]["value"][1])) == targets


def scrapes_overdue(url: str, interval: float, since: float, until: float) -> dict[str, float]:
    """By target: the share of [since, until], in Unix seconds, for which its scrape was overdue, or failed."""
    found = {}
    for series in instant(url, f"up[{round((until - since) * 1000)}ms]", until):
        good = [t for t, value in series["values"] if value == "1"]
        found[series["metric"]["instance"]] = overdue(good, interval, since, until)
    return found
