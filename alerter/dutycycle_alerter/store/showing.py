"""Rows of the counters and of the GPUs, as people are shown them."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from dutycycle_alerter.history import Series
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.store import counters
from dutycycle_alerter.views import GpuNow, Point


def utilization(points: list[counters.PointRow]) -> list[Point]:
    """Mean utilization between consecutive points; None where less than half of the time was measured."""
    if not points:
        return []
    history = Series(len(points[0].counters))
    for point in points:
        history.append(point.t, point.counters, point.gauges)
    shown = []
    for left, right in zip(history.times, history.times[1:], strict=False):
        _, observed, busy, *_ = history.increase(left, right)
        share = history.gauge_last(0, right) or 1.0
        measured = observed is not None and busy is not None and observed >= 0.5 * share * (right - left)
        shown.append(Point(right, busy / observed if measured and observed and busy is not None else None))
    return shown


def gpu_as_shown(row: sa.Row[tuple[object, ...]], users: Mapping[str, str], *, stale: bool) -> GpuNow:
    """A GPU at its last scrape; what is stale has no readings. `users` has the resolved user of each workload, where
    there is one: the exporter's label is the namespace, or what a pod says of itself.
    """
    reading = {} if stale else row.reading
    return GpuNow(
        gpu=Gpu(row.node, row.gpu, row.gpu_uuid, row.mig, row.model),
        scraped_at=row.scraped_at,
        stale=stale,
        utilization=reading.get("utilization"),
        memory_used=reading.get("memory_used"),
        memory_total=reading.get("memory_total"),
        power=reading.get("power"),
        power_limit=reading.get("power_limit"),
        temperature=reading.get("temperature"),
        processes=reading.get("processes"),
        last_busy_at=reading.get("last_busy_at"),
        lost_since=row.reading.get("lost_since"),
        workloads=tuple((workload, users.get(workload, user), share) for workload, user, share in row.workloads),
    )
