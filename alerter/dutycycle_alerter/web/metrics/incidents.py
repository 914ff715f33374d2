"""Incidents: those that are not resolved, each with a series of its own, and what became of the others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import Metric

from dutycycle_alerter.headline import without_uid
from dutycycle_alerter.incidents.tally import BOUNDS
from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.views import Listed
from dutycycle_alerter.web.families import MOST_INCIDENTS
from dutycycle_alerter.web.metrics.building import counter, gauge, histogram
from dutycycle_alerter.web.site import Site

_BOUNDS = (*(f"{float(bound)}" for bound in BOUNDS), "+Inf")


def unresolved(site: Site, *, named: bool) -> Iterator[Metric]:
    """Those that are not resolved; each by itself where they may be named. Raises AlerterError."""
    counts = gauge("dutycycle_incidents")
    for (rule, severity, state), number in sorted(site.reader.active_counts().items()):
        counts.add_metric([rule, severity.value, state.value], number)
    yield counts
    opened = gauge("dutycycle_incident_opened_timestamp_seconds")
    wasted = gauge("dutycycle_incident_wasted_gpu_seconds")
    listed, total = site.unresolved(MOST_INCIDENTS if named else 0)
    for one in listed:
        opened.add_metric(labels_of(one), one.opened_at)
        if one.about == "job":
            wasted.add_metric([str(one.id)], one.wasted)
    left_out = gauge("dutycycle_incidents_not_shown")
    left_out.add_metric([], total - len(listed))
    yield from (opened, wasted, left_out)


def outcomes(site: Site, *, store: bool) -> Iterator[Metric]:
    """What became of incidents, as far as this alerter counted it; where there is no `store`, until it went away."""
    tally = site.tally(store)
    opened = counter("dutycycle_incidents_opened_total")
    for (rule, severity), number in sorted(tally.opened.items()):
        opened.add_metric([rule, severity], number)
    resolved = counter("dutycycle_incidents_resolved_total")
    for (rule, resolution), number in sorted(tally.resolved.items()):
        resolved.add_metric([rule, resolution], number)
    reopened = counter("dutycycle_incidents_reopened_total")
    for rule, number in sorted(tally.reopened.items()):
        reopened.add_metric([rule], number)
    took = histogram("dutycycle_incident_resolution_seconds")
    for rule, (numbers, seconds) in sorted(tally.times().items()):
        took.add_metric([rule], list(zip(_BOUNDS, accumulate(numbers), strict=True)), seconds)
    wasted = counter("dutycycle_incidents_wasted_gpu_seconds_total")
    for rule, amount in sorted(tally.wasted.items()):
        wasted.add_metric([rule], amount)
    yield from (opened, resolved, reopened, took, wasted)


def price(site: Site) -> Iterator[Metric]:
    """What a GPU-hour costs."""
    cost = gauge("dutycycle_gpu_hour_cost")
    if site.costs.gpu_hour is not None:
        cost.add_metric([site.costs.currency], site.costs.gpu_hour)
    yield cost


def labels_of(one: Listed) -> list[str]:
    """Of an incident's series, in the order of the table."""
    node = one.nodes[0] if len(one.nodes) == 1 else ""
    subject = {
        "job": without_uid(one.subject, one.cluster, one.scheduler),
        "gpu": f"{node}:{one.gpu}" if one.gpu else one.subject,
        "node": node or one.subject.removeprefix("node/"),
    }[one.about]
    own = (str(one.id), one.rule, one.severity, one.state, one.cause)
    outside = (one.cluster, one.scheduler, one.user, one.account, one.partition, one.namespace, subject)
    return [*own, *(printable(text, NAME_LIMIT) for text in outside), one.about, printable(node, NAME_LIMIT)]
