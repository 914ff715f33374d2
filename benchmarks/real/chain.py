"""Recorded runs through everything: exporters, a Prometheus with the shipped recording rules, and `dutycycle serve`,
all at one time scale. Some nodes have an exporter's process on the NVML double, the others are of its own parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.box import outcome
from benchmarks.box.clock import Clock
from benchmarks.box.model import Ledger, Scenario, SeenIncident
from benchmarks.box.nodes.fleet import Fleet
from benchmarks.box.nodes.protocol import Report
from benchmarks.box.nodes.settings import NodeSettings
from benchmarks.box.pace import Pace, paced
from benchmarks.box.played import NOT_ALL
from benchmarks.box.scrapes import all_up, scrapes_overdue
from benchmarks.box.site import Alerter
from benchmarks.real.comparison import BINS, Seen, Usage
from benchmarks.real.pace import scaled_rules
from benchmarks.real.playing import Courses, schedule
from benchmarks.real.runs import Run
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_dashboards import render
from dutycycle_dashboards.building import links
from tests.dashboards.answers.interpolation import Dashboard
from tests.e2e.site import wait_for
from tests.prometheus.server import PrometheusServer

PATIENCE = 120.0
INTERVAL = 30.0
"""Seconds between two scrapes of the full-length run."""
TAIL = 1200.0
"""Seconds after the last run: its increments are recorded, and what ended is closed."""
PASS = 60.0
"""Seconds between two passes of the alerter: its default."""


@dataclass(frozen=True)
class Chain:
    """What came out at the other end; incidents by workload of the recording, in seconds of the run."""

    incidents: Mapping[str, tuple[Seen, ...]]
    ledger: Mapping[str, Usage]
    """By user."""
    jobs: Mapping[str, Ledger]
    """By workload of the recording."""
    histogram: tuple[int, ...]
    """Users by bin, by the dashboard's own query."""
    hours: tuple[float, ...]
    """Their GPU-hours, by the dashboard's own query."""
    length: float
    stories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of each run with incidents, what happened to them."""
    pace: Pace = field(default_factory=Pace)
    """Of the machine: where it was late, incidents may have come late with it."""
    failed: int = 0
    """Passes of the alerter, from its start on."""
    trouble: tuple[str, ...] = ()
    """What went wrong in the harness: a run that has any tells nothing."""
    how: str = ""
    """On what it was played, and how fast."""


class Passes:
    """Of the alerter, counted from now on: those before the runs began are not of the time in which any was due."""

    def __init__(self, metrics: Callable[[], Mapping[tuple[str, str], float]]) -> None:
        self._metrics = metrics
        self._before = self._of("runs")

    def made(self) -> float:
        return self._of("runs") - self._before

    def failed(self) -> int:
        """Also those before: nothing excuses one."""
        return round(self._of("failures"))

    def _of(self, what: str) -> float:
        return self._metrics().get((f"dutycycle_alerter_task_{what}_total", "pass"), 0.0)


def troubles(reports: Mapping[str, Report], *, scraped: int, nodes: int, fed: bool) -> tuple[str, ...]:
    """What went wrong in the harness, by the processes' reports, the nodes that Prometheus has, and the feeder."""
    found = [f"{name}: {text}" for name, report in reports.items() for text in report.trouble[:5]]
    if scraped != nodes:
        found.append(f"Prometheus has {scraped} of {nodes} nodes")
    if not fed:
        found.append(NOT_ALL)
    return tuple(found)


def play(
    runs: Sequence[Run],
    directory: Path,
    *,
    nodes: int,
    processes: int,
    time_scale: float,
    judging: Mapping[str, Any],
    progress: Callable[[float, float], None],
) -> Chain:
    """All runs, side by side on so many nodes. `processes` of them have an exporter's process on the NVML double each,
    the others live in one process, with the exporter's own parts.
    """
    scenario = schedule(runs, nodes)
    courses = Courses({run.workload: run for run in runs})
    settings = NodeSettings(time_scale=time_scale, interval=INTERVAL)
    with ExitStack() as stack:
        fleet = stack.enter_context(Fleet(scenario, courses, directory / "nodes", settings, processes))
        prometheus = stack.enter_context(
            PrometheusServer(
                directory / "prometheus",
                targets=fleet.targets.values(),
                rules=[scaled_rules(directory / "rules.yaml", time_scale)],
                interval=f"{round(1000 * INTERVAL / time_scale)}ms",
            )
        )
        database_url = f"sqlite:///{directory / 'dutycycle.sqlite3'}"
        alerter = Alerter(
            "real",
            directory,
            {
                "time_scale": time_scale,
                "database": database_url,
                "prometheus": {"url": prometheus.url, "scrape_interval": f"{INTERVAL:g}s"},
                "judging": dict(judging),
            },
        )
        stack.callback(alerter.stop)
        alerter.start()
        database = stack.enter_context(closing(_opened(database_url, directory)))
        store = StoreReader(database)
        wait_for(lambda: all_up(prometheus.url, nodes), "Prometheus scrapes all nodes", within=PATIENCE)
        wait_for(lambda: store.status().last_pass, "the alerter has had a pass", within=PATIENCE)
        fleet.prepare()
        clock = Clock(time.time() + 0.5, time_scale)
        fleet.begin(clock)
        passes = Passes(alerter.metrics)
        until = scenario.length + TAIL
        while (now := clock.scenario(time.time())) < until:
            fleet.check()
            if not alerter.alive:
                raise RuntimeError(f"the alerter has died:\n{alerter.log()[-4000:]}")
            progress(now, until)
            time.sleep(min(1.0, max(0.0, clock.wall(until) - time.time())))
        reports = fleet.end()
        end = time.time()
        made = passes.made()
        scrapes = scrapes_overdue(prometheus.url, INTERVAL / time_scale, clock.origin, end)
        names = outcome.Names(scenario.jobs)
        seen = outcome.incidents(store, {}, clock, names)
        ledger = outcome.ledger(database, time_scale, names)
        stories = _stories(scenario, store, clock)
        histogram, hours = _users_board(prometheus.url, clock, end)
        # How long each pass was overdue is not asked: incidents open within two minutes or do not.
        due = clock.scenario(end) / PASS
        pace = paced(passes=0.0, scrapes=scrapes, made=made, due=due, reports=reports.values())
        trouble = troubles(reports, scraped=len(scrapes), nodes=nodes, fed=fleet.fed())
        failed = passes.failed()
    return Chain(
        incidents=_by_workload(scenario, seen),
        ledger=_by_user(scenario, ledger),
        jobs={job.mechanism: ledger[job.workload] for job in scenario.jobs if job.workload in ledger},
        histogram=histogram,
        hours=hours,
        length=scenario.length,
        stories=stories,
        pace=pace,
        failed=failed,
        trouble=trouble,
        how=f"{nodes} nodes, {processes} of them with an exporter's process on the NVML double, the others of the "
        f"exporter's own parts; {time_scale:g} times their speed",
    )


def _opened(url: str, directory: Path) -> Any:
    """The alerter makes its database; it is opened once it is there."""
    wait_for((directory / "dutycycle.sqlite3").exists, "the alerter has a database", within=PATIENCE)
    return open_database(url)


def _users_board(url: str, clock: Clock, end: float) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Users, and their GPU-hours, by bin: what the board of users shows of all that was played."""
    board = Dashboard(url, render.dashboards()[links.USERS], clock.origin, end)
    users, hours = [0] * BINS, [0.0] * BINS
    for panel in board.panels():
        values: list[Any] | None = {
            "Users by mean utilization": users,
            "GPU-hours by mean utilization of their user": hours,
        }.get(panel["title"])
        if values is None:
            continue
        for row in board.ask(panel, panel["targets"][0]):
            values[int(row["metric"]["bin"]) // 5] = float(row["value"][1])
    return tuple(round(count) for count in users), tuple(value * clock.time_scale for value in hours)


def _by_workload(scenario: Scenario, incidents: Sequence[SeenIncident]) -> dict[str, tuple[Seen, ...]]:
    jobs = {job.workload: job for job in scenario.jobs}
    found: dict[str, list[Seen]] = {}
    for one in incidents:
        if one.kind == "efficiency" and one.workload in jobs:
            job = jobs[one.workload]
            ended = None if one.resolved is None else one.resolved - job.start
            found.setdefault(job.mechanism, []).append(Seen(one.rule, one.opened - job.start, ended, one.resolution))
    return {name: tuple(sorted(seen, key=lambda one: one.opened)) for name, seen in found.items()}


def _stories(scenario: Scenario, store: StoreReader, clock: Clock) -> dict[str, tuple[str, ...]]:
    jobs = {job.workload: job for job in scenario.jobs}
    found: dict[str, list[str]] = {}
    last = 0
    while events := store.events_after(last):
        for number, incident, event in events:
            last = number
            job = jobs.get(incident.subject)
            if job is not None and incident.kind == "efficiency":
                at = clock.scenario(event.at) - job.start
                found.setdefault(job.mechanism, []).append(f"{at / 60:.1f} min {event.kind}: {event.text}")
    return {name: tuple(lines) for name, lines in found.items()}


def _by_user(scenario: Scenario, ledger: Mapping[str, Ledger]) -> dict[str, Usage]:
    found: dict[str, Usage] = {}
    for job in scenario.jobs:
        row, before = ledger.get(job.workload), found.get(job.user, Usage(0.0, 0.0))
        if row is not None:
            found[job.user] = Usage(before.observed + row.observed, before.busy + row.busy)
    return found
