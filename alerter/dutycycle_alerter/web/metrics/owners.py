"""Owners of workloads, to which dashboards join the exporters' series."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from dutycycle_alerter.headline import without_uid
from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.web.metrics.building import gauge
from dutycycle_alerter.web.site import Site


def owners(site: Site, *, named: bool) -> Iterator[Metric]:
    """Each owner, where people may be named. Raises AlerterError."""
    family = gauge("dutycycle_workload_owner")
    for one in site.owners() if named else ():
        job = without_uid(one.job, "", one.workload.partition("/")[0])
        # The first two are compared with the exporters' labels: not a character of them may change.
        shown = (printable(text, NAME_LIMIT) for text in (one.user, one.account, job, one.kind))
        family.add_metric([one.cluster, one.workload, *shown], 1)
    yield family
