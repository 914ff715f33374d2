"""The users' histogram by the alerter's ledger and by the dashboard's queries: the same, from the same Prometheus."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.prometheus import PrometheusSource
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.reader import open_reader
from dutycycle_alerter.usage import UserUsage, hours_histogram, median_percent, users_histogram, users_under
from dutycycle_dashboards import promql, recording
from dutycycle_dashboards.links import USERS
from dutycycle_dashboards.render import dashboards
from tests.alerter.cli.test_tables import Shell
from tests.alerter.exporters import FakeExporter
from tests.alerter.sources.prometheus.past import START, Past
from tests.dashboards.answers import fleet
from tests.prometheus.evaluated import evaluate
from tests.prometheus.server import PrometheusServer

MINUTE, HOUR = 60.0, 3600.0
END = START + 8 * HOUR


@dataclass(frozen=True)
class Job:
    """`gpus` of a node, for minutes `start` to `end` of the past, busy for this share of the time: None where NVML has
    no utilization.
    """

    user: str
    node: str
    gpus: tuple[int, ...]
    start: int
    end: int
    busy: float | None


JOBS = (
    # Means and weights that a mean of means, or of jobs, would get wrong.
    Job("alice", "gpu01", (0, 1), 10, 400, 0.12),
    Job("bob", "gpu01", (2,), 20, 410, 1.0),
    Job("carol", "gpu02", (0,), 10, 400, None),
    Job("dave", "gpu02", (1,), 10, 310, 0.6),
    Job("dave", "gpu02", (2,), 10, 310, None),
    Job("erin", "gpu01", (3,), 15, 45, 0.9),
    Job("erin", "gpu03", (0, 1, 2, 3), 60, 240, 0.3),
    # On the edge of the share of low users: not under it.
    Job("frank", "gpu01", (4,), 30, 330, 0.15),
    Job("grace", "gpu01", (5,), 100, 140, 0.0),
    # Through a restart of its exporter, and through scrapes that did not happen.
    Job("heidi", "gpu03", (4, 5), 30, 420, 0.47),
    # One GPU after the other, for half an hour each.
    *(Job("ivan", "gpu02", (3,), 30 * n, 30 * n + 30, 0.77) for n in range(1, 12)),
    Job("judy", "gpu01", (6,), 12, 402, 0.031),
)
RESTART, SILENT = 200, range(250, 262)
"""Minutes in which gpu03's exporter starts again, and is not scraped."""


def past() -> Past:
    """Of `JOBS`, one scrape a minute."""
    told = Past()
    exporters = {node: FakeExporter(node) for node in ("gpu01", "gpu02", "gpu03")}
    busy = {f"slurm/{n}": job.busy for n, job in enumerate(JOBS)}
    for minute in range(round((END - START) / MINUTE)):
        for n, job in enumerate(JOBS):
            exporter, workload = exporters[job.node], f"slurm/{n}"
            if minute == job.start:
                exporter.allocate(workload, *job.gpus, start=told.now, user=job.user)
                told.scrape(exporter)
            if minute == job.end:
                exporter.end(workload)
            if minute == job.end + 2:
                exporter.forget(workload)
        if minute == RESTART:
            exporters["gpu03"].restart()
        silent = {"gpu03": True} if minute in SILENT else {}
        told.run(MINUTE, lambda one, seconds: one.run(seconds, busy), *exporters.values(), silent=silent)
    return told


RECORDED_AFTER = {"5m": 5 * MINUTE, "1h": 65 * MINUTE}
"""Seconds until the last of what was measured is recorded."""


@dataclass(frozen=True)
class Both:
    """The same past, as the ledger and as the engine have it."""

    ledger: Sequence[UserUsage]
    server: PrometheusServer
    store: Path
    start: float
    end: float

    def ask(self, expr: str, resolution: str) -> list[dict[str, Any]]:
        """A query of the board's over the whole past, with nothing filtered, once all of it is recorded."""
        assert expr in self.queries, expr
        end = self.end + RECORDED_AFTER[resolution]
        for name in promql.FILTERS:
            expr = expr.replace(f'"${name}"', '".*"')
        expr = expr.replace("${res}", resolution).replace("$__range", f"{end - self.start:.0f}s")
        body = urllib.parse.urlencode({"query": expr, "time": end}).encode()
        with urllib.request.urlopen(f"{self.server.url}/api/v1/query", body, timeout=60) as response:
            found: list[dict[str, Any]] = json.load(response)["data"]["result"]
        return found

    def by(self, label: str, expr: str, resolution: str) -> dict[str, float]:
        return {row["metric"][label]: float(row["value"][1]) for row in self.ask(expr, resolution)}

    @property
    def queries(self) -> set[str]:
        """Those that the Users board asks."""
        rows = dashboards()[USERS]["panels"]
        panels = [panel for row in rows for panel in (row, *row.get("panels", ()))]
        return {target["expr"] for panel in panels for target in panel.get("targets", ())}


def ledger(server: PrometheusServer, store: Path, start: float, end: float, *, scrape: float) -> list[UserUsage]:
    """Through the alerter's own source and engine, a pass each ten minutes, and once it has to catch up."""
    now = [start]
    section = {"url": server.url, "scrape_interval": scrape}
    settings = Settings.model_validate({"prometheus": section, "database": f"sqlite:///{store}"}).scaled()
    database = open_database(settings.database)
    source = PrometheusSource(settings, database)
    engine = Engine(settings, source, database, lambda: now[0])
    source.restore()
    now[0] = start + 2 * scrape
    engine.run_pass()
    now[0] = start + 40 * MINUTE
    while now[0] <= end:
        engine.run_pass()
        now[0] += 10 * MINUTE
    source.close()
    database.close()
    reader = open_reader(f"sqlite:///{store}")
    try:
        return list(reader.users(since=start, until=end))
    finally:
        reader.close()


@pytest.fixture(scope="module", params=["few jobs", "a fleet's day"])
def both(
    request: pytest.FixtureRequest, fleet_server: PrometheusServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    if request.param == "a fleet's day":
        start, end = float(fleet.MIDNIGHT), float(fleet.MIDNIGHT + fleet.DAY)
        store = tmp_path_factory.mktemp("fleet") / "alerter.sqlite3"
        found = ledger(fleet_server, store, start, end, scrape=fleet.SCRAPE)
        yield Both(found, fleet_server, store, start, end)
        return
    directory = tmp_path_factory.mktemp("both")
    store = directory / "alerter.sqlite3"
    with PrometheusServer(directory / "prometheus", openmetrics=past().openmetrics()) as server:
        counters = recording.COUNTERS
        spans = [(START, END + 2 * HOUR)]
        copies = {recording.copy_of(counter) for counter in counters}
        evaluate(server, spans, choose=copies.__contains__)
        fine = {recording.counted(counter) for counter in counters}
        fine |= {recording.increase(counter, "5m") for counter in counters}
        evaluate(server, spans, choose=fine.__contains__)
        coarse = {recording.increase(counter, "1h") for counter in counters}
        evaluate(server, spans, choose=coarse.__contains__)
        yield Both(ledger(server, store, START, END, scrape=MINUTE), server, store, START, END)


RESOLUTIONS = tuple(RECORDED_AFTER)


@pytest.mark.parametrize("both", ["few jobs"], indirect=True)
def test_what_both_are_compared_on_has_what_could_tell_them_apart(both: Both) -> None:
    means = {user.user: user.mean_percent for user in both.ledger}
    assert means.keys() == {job.user for job in JOBS}
    assert means["carol"] is None
    assert means["bob"] == pytest.approx(100)
    assert means["erin"] == pytest.approx(100 * (0.5 * 0.9 + 12 * 0.3) / 12.5, abs=0.5)
    assert 15 <= (means["frank"] or 0) < 15.5


@pytest.mark.parametrize("resolution", RESOLUTIONS)
def test_as_many_users_are_in_each_bin(both: Both, resolution: str) -> None:
    bins = both.by("bin", promql.users_per_bin(), resolution)
    assert [bins[key] for key in sorted(bins)] == users_histogram(both.ledger)
    assert sum(bins.values()) == sum(user.observed > 0 for user in both.ledger) < len(both.ledger)


@pytest.mark.parametrize("resolution", RESOLUTIONS)
def test_bins_weigh_as_much(both: Both, resolution: str) -> None:
    hours = both.by("bin", promql.hours_per_bin(), resolution)
    assert [hours[key] for key in sorted(hours)] == pytest.approx(
        [seconds / 3600 for seconds in hours_histogram(both.ledger)], rel=0.01
    )


@pytest.mark.parametrize("resolution", RESOLUTIONS)
def test_users_have_the_same_mean_and_hours(both: Both, resolution: str) -> None:
    means = both.by("user", promql.utilization(["user"]), resolution)
    measured = {user.user: user.mean_percent for user in both.ledger if user.mean_percent is not None}
    assert means == pytest.approx(measured, abs=0.5)
    allocated = both.by("user", promql.hours("allocated", ["user"]), resolution)
    assert allocated == pytest.approx({user.user: user.allocated / 3600 for user in both.ledger}, rel=0.01)


@pytest.mark.parametrize("resolution", RESOLUTIONS)
def test_the_share_of_low_users_and_the_median_are_the_same(both: Both, resolution: str) -> None:
    [low] = both.ask(promql.share_of_low_users(), resolution)
    measured = sum(users_histogram(both.ledger))
    assert float(low["value"][1]) == pytest.approx(users_under(both.ledger) / measured)
    [median] = both.ask(promql.median_user(), resolution)
    assert float(median["value"][1]) == pytest.approx(median_percent(both.ledger), abs=0.5)


def test_the_terminal_says_it_too(both: Both) -> None:
    # It looks back from today: there is nothing but this past in the store.
    said = Shell(both.store).json("users", "--since", "10000d")
    bins = both.by("bin", promql.users_per_bin(), "5m")
    assert said["users_histogram"] == [bins[key] for key in sorted(bins)]
    hours = both.by("bin", promql.hours_per_bin(), "5m")
    assert said["gpu_hours_histogram"] == pytest.approx([hours[key] for key in sorted(hours)], rel=0.01)
    assert said["users_under_15"] == users_under(both.ledger)
