"""What waits to be told and what became of messages, by receiver."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from dutycycle_alerter.web.metrics.building import counter, gauge
from dutycycle_alerter.web.site import Site


def delivered(site: Site) -> Iterator[Metric]:
    """What became of messages; needs no store."""
    deliveries = counter("dutycycle_deliveries_total")
    failing = gauge("dutycycle_receiver_failing_seconds")
    now = site.clock()
    for name, counts in sorted(site.deliveries().items()):
        for result in ("sent", "retried", "failed"):
            deliveries.add_metric([name, result], getattr(counts, result))
        failing.add_metric([name], 0 if counts.failing_since is None else max(0.0, now - counts.failing_since))
    yield deliveries
    yield failing


def waiting(site: Site) -> Iterator[Metric]:
    """What waits. Raises AlerterError."""
    depth = gauge("dutycycle_outbox_notices")
    oldest = gauge("dutycycle_outbox_oldest_seconds")
    now, found = site.clock(), site.outbox()
    # Also of receivers for which nothing waits, so that an alert has something to compare.
    for name in sorted(found.keys() | site.deliveries().keys()):
        one = found.get(name)
        depth.add_metric([name], 0 if one is None else one.notices)
        oldest.add_metric([name], 0 if one is None else max(0.0, now - one.due_at))
    yield depth
    yield oldest
