"""kill -9 at each step of passes over a real engine: incidents and usage become what they are without."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from dutycycle_alerter.engine import STEPS, Engine
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.prometheus import PrometheusSource
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.killing_itself import killing_itself
from tests.alerter.sources.prometheus.conftest import Story
from tests.alerter.sources.prometheus.past import START
from tests.prometheus.server import PrometheusServer

MINUTE = 60.0
EVERY = 5 * MINUTE

PATIENCE = 600.0


class Passes:
    """Passes at these instants into a store; `run` goes on after the last one that was said to be done."""

    def __init__(self, path: Path, engine: str, story: Story) -> None:
        self._path, self._engine, self._interval = path, engine, story.past.interval
        count = int((story.at - START) / EVERY)
        self.left = [story.at - EVERY * n for n in reversed(range(count - 3))]

    def run(self, step: str) -> int | None:
        """Until the end, or until it kills itself at the step. Returns the exit status.

        Forked from one process that has imported all it needs, which takes longer than the passes.
        """
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        done, said = context.Pipe(duplex=False)
        values = (self._path, self._engine, self._interval, step, self.left, said)
        process = context.Process(target=_alert, args=values, daemon=True)
        process.start()
        said.close()
        with done, suppress(EOFError):
            while self.left:
                assert done.poll(PATIENCE), "no pass"
                assert done.recv() == self.left.pop(0)
        process.join(PATIENCE)
        return process.exitcode


def _alert(path: Path, url: str, interval: float, step: str, instants: list[float], said: Connection) -> None:
    now = 0.0
    section = {"url": url, "scrape_interval": interval}
    settings = Settings.model_validate({"prometheus": section, "database": f"sqlite:///{path}"}).scaled()
    database = open_database(settings.database, time_scale=1)
    source = PrometheusSource(settings, database)
    engine = Engine(settings, source, database, lambda: now, reached=killing_itself(step))
    source.restore()
    for now in instants:
        engine.run_pass()
        said.send(now)


def outcome(path: Path) -> tuple[Counter[tuple[object, ...]], dict[str, float]]:
    """Each incident with its history, and each user's allocated GPU-seconds."""
    database = open_database(f"sqlite:///{path}", time_scale=1)
    reader = StoreReader(database)
    found: Counter[tuple[object, ...]] = Counter()
    for item in reader.incidents(IncidentFilter(), limit=1000)[0]:
        kinds = tuple(event.kind.value for event in reader.events(item.id))
        found[item.subject, item.kind, item.rule, item.state, item.resolution, kinds] += 1
    used = {usage.user: usage.allocated for usage in reader.users(since=0, until=1e12)}
    database.close()
    return found, used


@pytest.mark.timeout(900)
def test_killed_at_each_step_the_store_becomes_what_it_is_without(
    tmp_path: Path, prometheus: PrometheusServer, story: Story
) -> None:
    undisturbed = Passes(tmp_path / "whole.sqlite3", prometheus.url, story)
    assert undisturbed.run("none") == 0
    incidents, used = outcome(tmp_path / "whole.sqlite3")
    assert len(incidents) > 3
    assert all(count == 1 for count in incidents.values())
    assert sum(used.values()) > 10 * 3600

    killed, kills = Passes(tmp_path / "killed.sqlite3", prometheus.url, story), 0
    # Those that come after incidents were folded first: passes that change some are not many.
    for step in reversed(STEPS):
        status = killed.run(step)
        kills += status == -signal.SIGKILL
        assert status in (0, -signal.SIGKILL)
    assert killed.run("none") == 0
    assert kills == len(STEPS)
    assert outcome(tmp_path / "killed.sqlite3") == (
        incidents,
        {user: pytest.approx(seconds, abs=1) for user, seconds in used.items()},
    )
