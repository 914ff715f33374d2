"""kill -9 at each step of passes over a real engine: incidents and usage become what they are without."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from dutycycle_alerter.engine import STEPS
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.sources.prometheus.conftest import Story
from tests.alerter.sources.prometheus.past import START
from tests.prometheus.server import PrometheusServer

MINUTE = 60.0
EVERY = 5 * MINUTE

ALERTER = """
import sys
from dutycycle_alerter.engine import Engine
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.prometheus import PrometheusSource
from dutycycle_alerter.store.database import open_database
from tests.alerter.killing_itself import killing_itself

path, url, interval, step, *instants = sys.argv[1:]
now = [0.0]
section = {"url": url, "scrape_interval": float(interval)}
settings = Settings.model_validate({"prometheus": section, "database": f"sqlite:///{path}"}).scaled()
database = open_database(settings.database, time_scale=1)
source = PrometheusSource(settings, database)
engine = Engine(settings, source, database, lambda: now[0], reached=killing_itself(step))
source.restore()
for instant in map(float, instants):
    now[0] = instant
    engine.run_pass()
    print(instant, flush=True)
"""


class Passes:
    """Passes at these instants into a store; `run` goes on after the last one that was said to be done."""

    def __init__(self, path: Path, engine: str, story: Story) -> None:
        self._path, self._engine, self._interval = path, engine, story.past.interval
        count = int((story.at - START) / EVERY)
        self.left = [story.at - EVERY * n for n in reversed(range(count - 3))]

    def run(self, step: str) -> int:
        """Until the end, or until it kills itself at the step. Returns the exit status."""
        command = [sys.executable, "-c", ALERTER, str(self._path), self._engine, str(self._interval), step]
        done = subprocess.run(
            [*command, *map(repr, self.left)], stdout=subprocess.PIPE, text=True, check=False, timeout=600
        )
        self.left = self.left[len(done.stdout.split()) :]
        return done.returncode


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
