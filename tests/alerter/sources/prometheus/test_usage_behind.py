"""An engine that does not answer what the usage ledger asks, or not in time: jobs are judged all the same, and usage is
caught up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.incidents.model import State
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.prometheus import PrometheusSource, accounting, queries
from dutycycle_alerter.store.database import Database, forget_meta, get_meta, open_database, set_meta
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.store.status import WATERMARK
from dutycycle_alerter.views import IncidentFilter, TargetStatus
from tests.alerter.sources.prometheus.conftest import Story
from tests.alerter.sources.prometheus.test_faults import Proxy, error, serving, where
from tests.prometheus.server import PrometheusServer

HOUR = 3600.0
NO_USAGE = where("[600000ms]", 500, error("internal", "no"))


@dataclass
class Site:
    """An alerter over a proxy, whose ledger is some time behind."""

    proxy: Proxy
    settings: Settings
    database: Database
    story: Story

    def __post_init__(self) -> None:
        self.source = PrometheusSource(self.settings, self.database)

    def run(self) -> TargetStatus:
        """A pass; what the status says of the engine then."""
        Engine(self.settings, self.source, self.database, lambda: self.story.at).run_pass()
        (target,) = self.source.targets()
        return target

    def asks(self, **limits: float) -> None:
        """From now on with these limits, as after a restart."""
        self.source.close()
        assert self.settings.prometheus is not None
        section = self.settings.prometheus.model_copy(update=limits)
        self.source = PrometheusSource(self.settings.model_copy(update={"prometheus": section}), self.database)

    @property
    def watermark(self) -> float:
        with self.database.read() as connection:
            return float(get_meta(connection, WATERMARK))

    @watermark.setter
    def watermark(self, at: float) -> None:
        with self.database.write() as connection:
            set_meta(connection, WATERMARK, at)

    def allocated(self) -> float:
        reader = StoreReader(self.database, lambda: self.story.at)
        return sum(usage.allocated for usage in reader.users(since=0, until=1e12))

    def active(self) -> set[str]:
        reader = StoreReader(self.database, lambda: self.story.at)
        found, _ = reader.incidents(IncidentFilter(states=frozenset(State) - {State.RESOLVED}))
        return {item.subject for item in found if item.about == "job"}


@pytest.fixture
def site(prometheus: PrometheusServer, story: Story, tmp_path: Path) -> Iterator[Site]:
    proxy = Proxy(prometheus.url)
    with serving(proxy) as url:
        given = {"prometheus": {"url": url, "scrape_interval": story.past.interval}}
        database = open_database(f"sqlite:///{tmp_path}/a.sqlite3")
        made = Site(proxy, Settings.model_validate(given).scaled(), database, story)
        made.watermark = story.at - HOUR
        yield made
        made.source.close()
        database.close()


def test_jobs_are_judged_without_their_usage_which_is_caught_up(site: Site) -> None:
    site.proxy.rule = NO_USAGE
    for _ in range(2):
        target = site.run()
        assert (target.last_success, target.error) == (site.story.at, "")
        assert "usage is behind, and will be caught up: " in target.note
        assert "answered 500 internal: no" in target.note
        assert {"slurm/4", "slurm/6"} <= site.active()
        assert (site.watermark, site.allocated()) == (site.story.at - HOUR, 0)
    site.proxy.rule = lambda _: None
    assert "usage" not in site.run().note
    assert site.watermark == site.story.at - 2 * site.story.past.interval
    caught_up = site.allocated()

    with site.database.write() as connection:
        connection.exec_driver_sql("DELETE FROM usage_hour")
    site.watermark = site.story.at - HOUR
    site.asks()
    site.run()
    assert caught_up == pytest.approx(site.allocated())
    assert caught_up > HOUR


def test_while_usage_is_hours_behind_what_was_seen_is_not_looked_for_again(site: Site) -> None:
    site.watermark = site.story.at - 10 * HOUR
    site.proxy.rule = NO_USAGE
    reached = []
    for _ in range(2):
        site.proxy.asked.clear()
        site.run()
        reached.append(any("gpu_allocation[7200000ms]" in query for query in site.proxy.asked))
    assert reached == [True, False]


def test_usage_is_counted_though_evidence_takes_all_the_time_that_it_may(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would fall behind for as long as that lasts."""
    # Of the time that is waited for here little is evidence's: usage has enough on a busy machine, too.
    monkeypatch.setattr(accounting, "_KEPT", 0.75)
    longest = {query.text for query in queries.evidence(site.settings) if query.window >= 7200}
    assert longest
    released = threading.Event()

    def hangs(query: str) -> tuple[int, bytes] | None:
        if query not in longest:
            return None
        released.wait()
        return 503, b""

    site.proxy.rule = hangs
    site.asks(timeout=600.0, pass_timeout=40.0)
    try:
        target = site.run()
    finally:
        released.set()
    assert target.error == ""
    assert "queries have no answer" in target.note
    assert "usage" not in target.note.replace("is kept for usage", "")
    assert site.watermark > site.story.at - HOUR
    assert {"slurm/4", "slurm/6"} <= site.active()


def test_a_ledger_that_is_ahead_of_the_clock_says_so_and_how_to_go_on(site: Site) -> None:
    """A clock was ahead in one pass: what lies before then is not counted, lest anything be counted twice."""
    site.watermark = site.story.at + 24 * HOUR
    for _ in range(2):
        assert "delete the row accounted_until from the table meta" in site.run().note
        assert site.allocated() == 0
    with site.database.write() as connection:
        forget_meta(connection, WATERMARK)
    site.asks()
    assert "usage" not in site.run().note
    assert site.watermark == site.story.at - 2 * site.story.past.interval
