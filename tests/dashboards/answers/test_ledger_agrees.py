"""The users' histogram by the alerter's ledger and by the dashboard's queries: the same, from the same Prometheus."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Sequence
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
from dutycycle_dashboards.building import promql
from dutycycle_dashboards.building.links import USERS
from dutycycle_dashboards.render import dashboards
from tests.alerter.cli.test_tables import Shell
from tests.dashboards.answers import fleet
from tests.prometheus.server import PrometheusServer

MINUTE = 60.0

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
    """Through the alerter's own source and engine, a pass each half hour, and once it has to catch up."""
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
    while now[0] < end:
        engine.run_pass()
        now[0] += 30 * MINUTE
    now[0] = end
    engine.run_pass()
    source.close()
    database.close()
    reader = open_reader(f"sqlite:///{store}")
    try:
        return list(reader.users(since=start, until=end))
    finally:
        reader.close()


@pytest.fixture(scope="module")
def both(fleet_server: PrometheusServer, tmp_path_factory: pytest.TempPathFactory) -> Both:
    start, end = float(fleet.MIDNIGHT), float(fleet.MIDNIGHT + fleet.DAY)
    store = tmp_path_factory.mktemp("fleet") / "alerter.sqlite3"
    return Both(ledger(fleet_server, store, start, end, scrape=fleet.SCRAPE), fleet_server, store, start, end)


RESOLUTIONS = tuple(RECORDED_AFTER)


def test_what_both_are_compared_on_has_what_could_tell_them_apart(both: Both) -> None:
    means = [user.mean_percent for user in both.ledger]
    assert None in means
    measured = sorted(mean for mean in means if mean is not None)
    assert measured[0] < 0.5
    assert measured[-1] > 99.5
    assert len({int(mean / 5) for mean in measured}) > 5


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
