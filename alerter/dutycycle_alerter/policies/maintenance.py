"""Maintenance: which of its times have begun, and whom they are about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from dutycycle_alerter.model import Job
from dutycycle_alerter.settings import Maintenance, Policies
from dutycycle_alerter.settings.calendar import beginning, end, span, zone_of
from dutycycle_alerter.settings.matching import ANY, matches_any

_LOOK_BACK = 9
"""Days: the last of a weekly time is at most seven back, and zones differ from UTC by less than one."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """One time of maintenance that has begun, and is or is not over: from `since`, up to but without `until`."""

    name: str
    reason: str
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class _Times:
    """One entry of the configuration with its times that have begun."""

    window: Maintenance
    quiets: tuple[Quiet, ...]


class Calendar:
    """The maintenance of a site as it is at the instant `now`."""

    def __init__(self, policies: Policies, now: float) -> None:
        self._now = now
        times = [_Times(window, tuple(_begun(window, policies, now))) for window in policies.maintenance]
        self._times = [one for one in times if one.quiets]

    def of_job(self, job: Job) -> Quiet | None:
        """The time of maintenance on a job that ends last, over or not; None where there was none of late."""
        return _last(quiet for one in self._times if _means_job(one.window, job) for quiet in one.quiets)

    def of_node(self, node: str, *, cluster: str = "", partitions: Iterable[str] = ()) -> Quiet | None:
        """The same of a node. Of what is not known (empty), no maintenance of some clusters or partitions is about."""
        return _last(self._of_node(node, cluster, tuple(partitions)))

    def covers(self, node: str, at: float, *, cluster: str = "", partitions: Iterable[str] = ()) -> bool:
        """Whether the node was under maintenance at an instant of the last week."""
        return any(quiet.since <= at < quiet.until for quiet in self._of_node(node, cluster, tuple(partitions)))

    def going_on(self, quiet: Quiet | None) -> bool:
        """Whether it is not over."""
        return quiet is not None and self._now < quiet.until

    def open(self) -> tuple[Quiet, ...]:
        """All that goes on."""
        return tuple(quiet for one in self._times for quiet in one.quiets if self.going_on(quiet))

    def _of_node(self, node: str, cluster: str, partitions: tuple[str, ...]) -> Iterable[Quiet]:
        for one in self._times:
            window = one.window
            in_partition = window.partition == ANY or any(matches_any(name, window.partition) for name in partitions)
            in_cluster = window.cluster == ANY or (bool(cluster) and matches_any(cluster, window.cluster))
            if in_partition and in_cluster and matches_any(node, window.node):
                yield from one.quiets


def _means_job(window: Maintenance, job: Job) -> bool:
    return (
        matches_any(job.partition, window.partition)
        and matches_any(job.cluster, window.cluster)
        and (window.node == ANY or any(matches_any(node, window.node) for node in job.nodes))
    )


def _last(quiets: Iterable[Quiet]) -> Quiet | None:
    return max(quiets, key=lambda quiet: quiet.until, default=None)


def _begun(window: Maintenance, policies: Policies, now: float) -> Iterable[Quiet]:
    zone = zone_of(window.timezone or policies.timezone)
    for since, until in _spans(window, zone, now):
        if since <= now:
            yield Quiet(window.name, window.reason, since, until)


def _spans(window: Maintenance, zone: tzinfo, now: float) -> Iterable[tuple[float, float]]:
    if window.start is not None and window.end is not None:
        yield beginning(window.start, zone), end(window.end, zone)
        return
    if window.opens is None or window.closes is None:
        return
    today = datetime.fromtimestamp(now, UTC).astimezone(zone).date()
    wanted = {day.number for day in window.days} or set(range(7))
    for back in range(-1, _LOOK_BACK):
        day = today - timedelta(days=back)
        if day.weekday() in wanted:
            yield span(day, window.opens, window.closes, zone)
