"""The alerter itself: whether its sources answer, how its tasks fare, and whether it is the one that evaluates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from dutycycle_alerter import __version__
from dutycycle_alerter.web.metrics.building import counter, gauge
from dutycycle_alerter.web.site import Site


def of_process(site: Site) -> Iterator[Metric]:
    """What is known without the store."""
    build = gauge("dutycycle_alerter_build_info")
    build.add_metric([__version__], 1)
    yield build
    yield from _runs(site)
    yield _isolated(site)
    yield from _lease(site)
    yield from _heard(site)


def of_last_pass(site: Site) -> Iterator[Metric]:
    """What the last pass left in the store. Raises AlerterError."""
    status = site.reader.status()
    last = gauge("dutycycle_alerter_last_pass_timestamp_seconds")
    if status.last_pass is not None:
        last.add_metric([], status.last_pass)
    yield last
    judged = gauge("dutycycle_alerter_jobs_judged")
    judged.add_metric([], status.jobs_judged)
    yield judged
    silent = gauge("dutycycle_alerter_jobs_not_evaluable")
    counted: Counter[str] = Counter()
    for item in status.not_evaluable:
        counted[item.rule] += item.jobs
    for rule, jobs in sorted(counted.items()):
        silent.add_metric([rule], jobs)
    yield silent
    up = gauge("dutycycle_alerter_source_up")
    success = gauge("dutycycle_alerter_source_last_success_timestamp_seconds")
    for target in status.targets:
        up.add_metric([target.url], 0 if target.error or target.last_success is None else 1)
        if target.last_success is not None:
            success.add_metric([target.url], target.last_success)
    yield up
    yield success


def _runs(site: Site) -> Iterator[Metric]:
    runs = counter("dutycycle_alerter_task_runs_total")
    failures = counter("dutycycle_alerter_task_failures_total")
    seconds = gauge("dutycycle_alerter_task_duration_seconds")
    for name, task in sorted(site.tasks().items()):
        runs.add_metric([name], task.runs)
        failures.add_metric([name], task.failures)
        if task.seconds is not None:
            seconds.add_metric([name], task.seconds)
    yield runs
    yield failures
    yield seconds


def _isolated(site: Site) -> Metric:
    failures = counter("dutycycle_alerter_subject_failures_total")
    for step, number in sorted(site.failures().items()):
        failures.add_metric([step], number)
    return failures


def _lease(site: Site) -> Iterator[Metric]:
    leader = gauge("dutycycle_alerter_leader")
    epoch = gauge("dutycycle_alerter_lease_epoch")
    age = gauge("dutycycle_alerter_lease_age_seconds")
    lost = counter("dutycycle_alerter_leases_lost_total")
    standing = site.standing()
    if standing is not None:
        leader.add_metric([], 1 if standing.leads else 0)
        lost.add_metric([], standing.lost)
        if standing.epoch is not None:
            epoch.add_metric([], standing.epoch)
        if standing.age is not None:
            age.add_metric([], standing.age)
    yield from (leader, epoch, age, lost)


def _heard(site: Site) -> Iterator[Metric]:
    events = counter("dutycycle_alerter_watch_events_total")
    relists = counter("dutycycle_alerter_watch_relists_total")
    malformed = counter("dutycycle_alerter_watch_malformed_objects_total")
    failures = counter("dutycycle_alerter_watch_failures_total")
    silent = gauge("dutycycle_alerter_watch_silent_seconds")
    waiting = gauge("dutycycle_alerter_watch_unowned_workloads")
    for name, counts in sorted(site.watches().items()):
        events.add_metric([name], counts.events)
        relists.add_metric([name], counts.relists)
        malformed.add_metric([name], counts.malformed)
        for reason, number in sorted(counts.failures.items()):
            failures.add_metric([name, reason], number)
        if counts.silent is not None:
            silent.add_metric([name], counts.silent)
        waiting.add_metric([name], counts.waiting)
    yield from (events, relists, malformed, failures, silent, waiting)
