"""Plays a scenario on a site of real processes, at its time scale, and tells what was seen of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, fields
from itertools import count
from pathlib import Path
from typing import Any

from dutycycle_alerter.incidents.model import State
from dutycycle_alerter.store.database import Database, get_meta, open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.store.status import WATERMARK
from dutycycle_alerter.views import IncidentFilter
from tests.e2e.site import wait_for

from . import outcome
from .clock import Clock
from .model import Observed, Scenario
from .nodes.feeding import Courses
from .nodes.fleet import Fleet
from .nodes.protocol import Report
from .nodes.settings import NodeSettings
from .pace import Pace, paced
from .played import NOT_ALL, UNSETTLED
from .scrapes import all_up, scrapes_overdue
from .site import Site, cpu_seconds, kinds, running
from .watch import Watch

PATIENCE = 300.0
"""Wall seconds until something that must happen at the beginning is given up."""
Progress = Callable[[float, str], None]
"""Is told the scenario's time, and what goes on."""


@dataclass(frozen=True)
class BoxSettings:
    """How a scenario is played; durations are those of the full-length run."""

    time_scale: float = 50.0
    processes: int = 1
    """So many of the first nodes are on the NVML double, with an exporter's process each."""
    interval: float = 30.0
    """Between two scrapes."""
    read_interval: float = 10.0
    """Between two readings of NVML."""
    sample_period: float = NodeSettings.sample_period
    """Of NVML's own samples."""
    pass_interval: float = 120.0
    """Between two passes of the alerter: one each 2.4 seconds of the wall at 50 times. Twice as many are more than
    two cores make beside all else.
    """
    owner_hours: float = 0.0
    """Users are mailed about efficiency rules from so many wasted GPU-hours on: here at once, as the harder test."""
    rest: float = 5400.0
    """How long at most to wait after the end until incidents are resolved and messages sent."""
    alerter: Mapping[str, Any] | None = None
    """Further settings of the alerters, by section."""

    @property
    def numbers(self) -> dict[str, float]:
        """All but the alerters' further settings."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "alerter"}

    @property
    def nodes(self) -> NodeSettings:
        return NodeSettings(self.time_scale, self.interval, self.read_interval, self.sample_period)


def play(
    scenario: Scenario,
    *,
    courses: Courses,
    directory: Path,
    settings: BoxSettings = BoxSettings(),
    progress: Progress = lambda _at, _what: None,
) -> Observed:
    """All of it, from an empty site to an Observed. `courses` is called once for each job, ahead of its start, in
    another process where it can be sent to one. `directory` gets logs and Prometheus' data, and `costs.json`: CPU
    seconds by process, and its `pace`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        progress(-1.0, "starting the nodes")
        fleet = stack.enter_context(Fleet(scenario, courses, directory / "nodes", settings.nodes, settings.processes))
        progress(-1.0, "starting Prometheus, PostgreSQL and the alerters")
        rest = _alerter_settings(scenario, settings)
        site = stack.enter_context(running(directory, fleet.targets, settings.nodes, rest, settings.owner_hours))
        return _Run(scenario, settings, fleet, site, directory, progress).run()


def _alerter_settings(scenario: Scenario, settings: BoxSettings) -> dict[str, Any]:
    """What the alerters are told beside where things are, and whom to tell."""
    return {
        "schedule": {"pass_interval": f"{settings.pass_interval:g}s"},
        "kinds": kinds(scenario.jobs),
        **(settings.alerter or {}),
    }


class _Run:
    def __init__(
        self,
        scenario: Scenario,
        settings: BoxSettings,
        fleet: Fleet,
        site: Site,
        directory: Path,
        progress: Progress,
    ) -> None:
        self._scenario = scenario
        self._settings = settings
        self._fleet = fleet
        self._site = site
        self._directory = directory
        self._progress = progress
        self._names = outcome.Names(scenario.jobs)

    def run(self) -> Observed:
        scale = self._settings.time_scale
        with closing(open_database(self._site.database)) as database:
            store = StoreReader(database)
            self._wait_for_the_first_pass(store)
            self._progress(-1.0, "making the first jobs")
            self._fleet.prepare()
            clock = Clock(time.time() + 0.5, scale)
            watch = Watch(store, clock, self._settings.pass_interval / scale / 2)
            watch.start()
            self._fleet.begin(clock)
            before = self._tasks("runs")
            pids = {**self._fleet.children, **self._site.processes}
            costs = _Costs(pids)
            self._wait(clock, self._scenario.length, costs.look)
            end = time.time()
            costs.look()
            made, failures = self._tasks("runs") - before, self._tasks("failures")
            settled = self._settle(store, database, clock)
            watch.stop()
            reports = self._fleet.end()
            seen = outcome.incidents(store, watch.told, clock, self._names)
            workloads = {one.id: (one.workload,) if one.workload else () for one in seen}
            messages = self._site.sinks.messages(clock, workloads, outcome.threads(database))
            ledger = outcome.ledger(database, scale, self._names)
        wall = end - clock.origin
        cores = {name: seconds / wall for name, seconds in costs.taken().items()}
        interval = self._settings.interval / scale
        scrapes = scrapes_overdue(self._site.prometheus.url, interval, clock.origin, end)
        pace = paced(
            passes=watch.overdue(self._settings.pass_interval / scale, clock.origin, end),
            scrapes=scrapes,
            made=made,
            due=wall * scale / self._settings.pass_interval,
            reports=reports.values(),
        )
        costs_file = {"wall": wall, "cores": cores, "pace": asdict(pace)}
        (self._directory / "costs.json").write_text(json.dumps(costs_file, indent=1))
        return Observed(
            incidents=seen,
            messages=messages,
            ledger=ledger,
            passes=made,
            failures=failures,
            late=pace.late,
            notes=tuple(self._notes(pace, scrapes, reports, watch, settled=settled)),
        )

    def _tasks(self, what: str) -> int:
        """Passes of all replicas: those that were made, or those that failed."""
        name = (f"dutycycle_alerter_task_{what}_total", "pass")
        return round(sum(alerter.metrics().get(name, 0.0) for alerter in self._site.alerters))

    def _wait_for_the_first_pass(self, store: StoreReader) -> None:
        def scraped() -> bool:
            return all_up(self._site.prometheus.url, len(self._fleet.targets))

        wait_for(scraped, "Prometheus scrapes all nodes", within=PATIENCE)
        now = time.time()

        def passed() -> bool:
            self._site.check()
            last = store.status().last_pass
            return last is not None and last > now

        wait_for(passed, "the alerter has had a pass", within=PATIENCE)
        wait_for(self._site.serves, "both alerters serve", within=PATIENCE)

    def _wait(self, clock: Clock, until: float, now_and_then: Callable[[], None] = lambda: None) -> None:
        """Until a time of the scenario, as long as everything lives."""
        turns = count()
        while (now := clock.scenario(time.time())) < until:
            self._fleet.check()
            self._site.check()
            self._progress(now, "")
            if next(turns) % 5 == 0:
                now_and_then()
            time.sleep(min(1.0, max(0.0, clock.wall(until) - time.time())))

    def _settle(self, store: StoreReader, database: Database, clock: Clock) -> bool:
        """Until what can be resolved is, everything is told, and the ledger has all that exporters showed of jobs.
        False where that took too long.
        """
        # The exporters see an end at their next reading, and hold its series for two scrapes.
        shown = self._scenario.length + 2 * self._settings.read_interval + 2 * self._settings.interval
        active = IncidentFilter(states=frozenset(state for state in State if state.active))
        while (now := clock.scenario(time.time())) < self._scenario.length + self._settings.rest:
            self._progress(now, "settling")
            open_ones, _ = store.incidents(active, limit=500)
            efficiency = any(one.kind == "efficiency" for one in open_ones)
            if clock.scenario(_accounted_until(database)) >= shown and not efficiency and not store.outbox():
                return True
            time.sleep(self._settings.pass_interval / clock.time_scale)
        return False

    def _notes(
        self, pace: Pace, scrapes: dict[str, float], reports: Mapping[str, Report], watch: Watch, *, settled: bool
    ) -> list[str]:
        notes = list(pace.reasons())
        if len(scrapes) != len(self._fleet.targets):
            notes.append(f"Prometheus has {len(scrapes)} of {len(self._fleet.targets)} nodes")
        if not settled:
            notes.append(UNSETTLED)
        for name, report in reports.items():
            notes += [f"{name}: {text}" for text in report.trouble[:5]]
        if watch.failed:
            notes.append(f"the store could not be read {watch.failed} times")
        if not self._fleet.fed():
            notes.append(NOT_ALL)
        return notes


def _accounted_until(database: Database) -> float:
    """The Unix time up to which the ledger has what jobs consumed."""
    with database.read() as connection:
        return float(get_meta(connection, WATERMARK) or 0.0)


class _Costs:
    """CPU seconds of processes from now on, also of those that end meanwhile."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._before = cpu_seconds(pids)
        self._now = dict(self._before)

    def look(self) -> None:
        """As often as something may have changed much."""
        self._now |= cpu_seconds(self._pids)

    def taken(self) -> dict[str, float]:
        return {name: seconds - self._before.get(name, 0.0) for name, seconds in self._now.items()}
