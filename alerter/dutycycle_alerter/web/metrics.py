"""The alerter's own metrics at `/metrics`: whether its sources answer, how its tasks fare, and what is open."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from dutycycle_alerter import __version__
from dutycycle_alerter.errors import AlerterError
from dutycycle_alerter.scheduler import TaskRuns
from dutycycle_alerter.views import DeliveryCounts, OutboxDepth, Reader, Standing, WatchCounts
from dutycycle_alerter.web.site import OpenSite

router = APIRouter()

Tasks = Callable[[], Mapping[str, TaskRuns]]
Standings = Callable[[], Standing | None]
Watches = Callable[[], Mapping[str, WatchCounts]]


@router.get("/metrics", include_in_schema=False)
def metrics(request: Request, site: OpenSite) -> Response:
    """In the text format, or OpenMetrics where the scraper asks for it."""
    registry = CollectorRegistry(auto_describe=False)
    collector = AlerterCollector(
        site.reader, site.tasks, site.standing, site.watches, Telling(site.outbox, site.deliveries, site.clock)
    )
    registry.register(collector)
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(registry), headers={"Content-Type": content_type})


@dataclass(frozen=True, slots=True)
class Telling:
    """What waits to be told and what became of messages, by receiver; `clock` is wall time."""

    outbox: Callable[[], Mapping[str, OutboxDepth]] = dict
    deliveries: Callable[[], Mapping[str, DeliveryCounts]] = dict
    clock: Callable[[], float] = time.time


class AlerterCollector(Collector):
    """What is known at the moment of the scrape. While the store does not answer it says so, and how the tasks fare."""

    def __init__(
        self,
        reader: Reader,
        tasks: Tasks,
        standing: Standings = lambda: None,
        watches: Watches = dict,
        telling: Telling = Telling(),
    ) -> None:
        self._reader = reader
        self._tasks = tasks
        self._standing = standing
        self._watches = watches
        self._telling = telling

    def describe(self) -> list[Metric]:
        """Nothing: names are fixed, and collecting reads the store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every family, also those without a series."""
        build = GaugeMetricFamily("dutycycle_alerter_build_info", "Version; always 1.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        yield from self._runs()
        yield from self._lease()
        yield from self._heard()
        yield from self._told()
        store = GaugeMetricFamily("dutycycle_alerter_store_up", "Whether the store answers.")
        try:
            stored = [*self._sources(), self._incidents(), *self._waiting()]
        except AlerterError:
            stored = []
        store.add_metric([], 1 if stored else 0)
        yield store
        yield from stored

    def _sources(self) -> Iterator[Metric]:
        status = self._reader.status()
        last = GaugeMetricFamily("dutycycle_alerter_last_pass_timestamp_seconds", "When everything was last judged.")
        if status.last_pass is not None:
            last.add_metric([], status.last_pass)
        yield last
        judged = GaugeMetricFamily(
            "dutycycle_alerter_jobs_judged", "Jobs of which at least one rule could be decided in the last pass."
        )
        judged.add_metric([], status.jobs_judged)
        yield judged
        silent = GaugeMetricFamily(
            "dutycycle_alerter_jobs_not_evaluable",
            "Jobs for which the rule lacks a kind of evidence, in the last pass.",
            labels=["rule"],
        )
        counted: Counter[str] = Counter()
        for item in status.not_evaluable:
            counted[item.rule] += item.jobs
        for rule, jobs in sorted(counted.items()):
            silent.add_metric([rule], jobs)
        yield silent
        up = GaugeMetricFamily(
            "dutycycle_alerter_source_up", "Whether the source answered when it was last asked.", labels=["source"]
        )
        success = GaugeMetricFamily(
            "dutycycle_alerter_source_last_success_timestamp_seconds",
            "When the source last answered; absent before.",
            labels=["source"],
        )
        for target in status.targets:
            up.add_metric([target.url], 0 if target.error or target.last_success is None else 1)
            if target.last_success is not None:
                success.add_metric([target.url], target.last_success)
        yield up
        yield success

    def _runs(self) -> Iterator[Metric]:
        runs = CounterMetricFamily("dutycycle_alerter_task_runs", "Runs of a periodic task.", labels=["task"])
        failures = CounterMetricFamily("dutycycle_alerter_task_failures", "Runs that failed.", labels=["task"])
        seconds = GaugeMetricFamily(
            "dutycycle_alerter_task_duration_seconds", "Duration of the task's last run.", labels=["task"]
        )
        for name, task in sorted(self._tasks().items()):
            runs.add_metric([name], task.runs)
            failures.add_metric([name], task.failures)
            if task.seconds is not None:
                seconds.add_metric([name], task.seconds)
        yield runs
        yield failures
        yield seconds

    def _lease(self) -> Iterator[Metric]:
        leader = GaugeMetricFamily("dutycycle_alerter_leader", "Whether this alerter evaluates.")
        epoch = GaugeMetricFamily("dutycycle_alerter_lease_epoch", "Of the lease, as this alerter last saw it.")
        age = GaugeMetricFamily(
            "dutycycle_alerter_lease_age_seconds", "Since this alerter last renewed the lease; absent without it."
        )
        lost = CounterMetricFamily(
            "dutycycle_alerter_leases_lost", "Terms of this alerter that ended without its wish."
        )
        standing = self._standing()
        if standing is not None:
            leader.add_metric([], 1 if standing.leads else 0)
            lost.add_metric([], standing.lost)
            if standing.epoch is not None:
                epoch.add_metric([], standing.epoch)
            if standing.age is not None:
                age.add_metric([], standing.age)
        yield leader
        yield epoch
        yield age
        yield lost

    def _heard(self) -> Iterator[Metric]:
        events = CounterMetricFamily(
            "dutycycle_alerter_watch_events", "Changes that a scheduler told.", labels=["source"]
        )
        relists = CounterMetricFamily(
            "dutycycle_alerter_watch_relists", "Complete lists that were read anew.", labels=["source"]
        )
        malformed = CounterMetricFamily(
            "dutycycle_alerter_watch_malformed_objects", "Objects that could not be read.", labels=["source"]
        )
        failures = CounterMetricFamily(
            "dutycycle_alerter_watch_failures", "Requests that failed, by reason.", labels=["source", "reason"]
        )
        silent = GaugeMetricFamily(
            "dutycycle_alerter_watch_silent_seconds",
            "Since the scheduler was last heard; absent before it was.",
            labels=["source"],
        )
        waiting = GaugeMetricFamily(
            "dutycycle_alerter_watch_unowned_workloads", "Workloads whose owner is looked for.", labels=["source"]
        )
        for name, counts in sorted(self._watches().items()):
            events.add_metric([name], counts.events)
            relists.add_metric([name], counts.relists)
            malformed.add_metric([name], counts.malformed)
            for reason, number in sorted(counts.failures.items()):
                failures.add_metric([name, reason], number)
            if counts.silent is not None:
                silent.add_metric([name], counts.silent)
            waiting.add_metric([name], counts.waiting)
        yield from (events, relists, malformed, failures, silent, waiting)

    def _incidents(self) -> Metric:
        found = GaugeMetricFamily(
            "dutycycle_incidents", "Incidents that are not resolved.", labels=["rule", "severity", "state"]
        )
        for (rule, severity, state), number in sorted(self._reader.active_counts().items()):
            found.add_metric([rule, severity.value, state.value], number)
        return found

    def _told(self) -> Iterator[Metric]:
        deliveries = CounterMetricFamily(
            "dutycycle_deliveries",
            "Attempts at messages: sent, to be retried, or failed for good.",
            labels=["receiver", "result"],
        )
        failing = GaugeMetricFamily(
            "dutycycle_receiver_failing_seconds",
            "Since the receiver last took something, where its last attempt failed; else 0.",
            labels=["receiver"],
        )
        now = self._telling.clock()
        for name, counts in sorted(self._telling.deliveries().items()):
            for result in ("sent", "retried", "failed"):
                deliveries.add_metric([name, result], getattr(counts, result))
            failing.add_metric([name], 0 if counts.failing_since is None else max(0.0, now - counts.failing_since))
        yield deliveries
        yield failing

    def _waiting(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily(
            "dutycycle_outbox_notices", "Pieces of news that wait to be told.", labels=["receiver"]
        )
        oldest = GaugeMetricFamily(
            "dutycycle_outbox_oldest_seconds",
            "For how long the first of them has been due; 0 where none is.",
            labels=["receiver"],
        )
        now, waiting = self._telling.clock(), self._telling.outbox()
        # Also of receivers for which nothing waits, so that an alert has something to compare.
        for name in sorted(waiting.keys() | self._telling.deliveries().keys()):
            found = waiting.get(name)
            depth.add_metric([name], 0 if found is None else found.notices)
            oldest.add_metric([name], 0 if found is None else max(0.0, now - found.due_at))
        yield depth
        yield oldest
