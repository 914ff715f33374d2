"""kill -9 at any moment of scrapes and passes, and at each step of a pass: what a new process finds in the store is
whole, and nothing is twice.
"""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy as sa

from dutycycle_alerter.engine import STEPS
from dutycycle_alerter.incidents.model import EventKind, Incident, Resolution, State
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.store.schema import notice
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.exporters import FakeExporter, serving

START = 1_750_000_000.0
MINUTE = 60.0
KILLS = 6

ALERTER = """
import sys, urllib.request
from dutycycle_alerter.engine import Engine
from dutycycle_alerter.notify.announcing import Announcer
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.scrape import ScrapeSource
from dutycycle_alerter.store.database import open_database
from tests.alerter.killing_itself import killing_itself

url, clock_url, target, step = sys.argv[1:]
now = [float(urllib.request.urlopen(clock_url).read())]
notify = {
    "owners": {"wasted_gpu_hours": 0},
    "receivers": [
        {"name": "hook", "webhook": {"url": "http://hook.example.org"}},
        {"name": "mail", "email": {"to": ["ops@example.org"]}},
    ],
    "routes": [{"receiver": "hook"}, {"receiver": "mail", "audience": "owner"}],
}
data = {"source": {"targets": [target], "interval": "1m"}, "notify": notify}
settings = Settings.model_validate(data).scaled()
database = open_database(url, time_scale=1)
source = ScrapeSource(settings, database, lambda: now[0])
announcer = Announcer(settings, database)
announcer.begin(now[0])
engine = Engine(settings, source, database, lambda: now[0],
                announce=announcer.announce, reached=killing_itself(step))
source.restore()
while True:
    now[0] = float(urllib.request.urlopen(clock_url).read())
    source.scrape()
    engine.run_pass()
    print(now[0], flush=True)
"""


class World:
    """A node that goes on while alerters die. Each question for the time lets a minute pass.

    `slurm/1` idles for fifty minutes and works for twenty, in turn; `slurm/2` works; every seventy minutes a job that
    idled begins and ends.
    """

    def __init__(self) -> None:
        self.exporter = FakeExporter("gpu01", 4)
        self.exporter.allocate("slurm/1", 0, start=START)
        self.exporter.allocate("slurm/2", 1, start=START, user="bob")
        self.minutes = 0

    def tick(self) -> str:
        turn, minute = divmod(self.minutes, 70)
        if minute == 0:
            self.exporter.allocate(f"slurm/{100 + turn}", 2, start=START + self.minutes * MINUTE, user="carol")
        if minute == 60:
            self.exporter.end(f"slurm/{100 + turn}")
        if minute == 69:
            self.exporter.forget(f"slurm/{100 + turn}")
        idles = minute < 50
        self.exporter.run(MINUTE, {"slurm/1": 0.0 if idles else 0.9, "slurm/2": 0.9, f"slurm/{100 + turn}": 0.0})
        self.minutes += 1
        return repr(START + self.minutes * MINUTE)


def test_killed_again_and_again_no_incident_is_lost_or_doubled_and_usage_adds_up(tmp_path: Path) -> None:
    url, world, chance = f"sqlite:///{tmp_path / 'store.sqlite3'}", World(), random.Random()
    with serving(world.exporter.page, world.tick) as (target, clock):
        for kill in range(KILLS + 1):
            with start(url, clock, target, "none") as alerter:
                assert alerter.stdout is not None
                # The moment is any: within a scrape, a pass, a commit, or the first steps after a start.
                for _ in range(chance.randrange(3, 120) if kill < KILLS else 100):
                    line = alerter.stdout.readline()
                    assert line, "the alerter ended by itself"
                time.sleep(0.02 * chance.random())
                alerter.kill()
    check_store(url, world)


@pytest.mark.parametrize(("store", "turns"), [("sqlite", 2), ("postgresql", 1)])
def test_killed_at_each_step_of_a_pass_no_incident_is_lost_or_doubled_and_usage_adds_up(
    request: pytest.FixtureRequest, tmp_path: Path, store: str, turns: int
) -> None:
    """Where the step comes after incidents were folded, in passes that change one: several times, so that some are
    openings and some ends.
    """
    url = f"sqlite:///{tmp_path / 'store.sqlite3'}" if store == "sqlite" else request.getfixturevalue("postgres_url")
    world = World()
    with serving(world.exporter.page, world.tick) as (target, clock):
        for step in turns * STEPS:
            with start(url, clock, target, step) as alerter:
                assert alerter.wait(300) == -signal.SIGKILL
        with start(url, clock, target, "none") as alerter:
            assert alerter.stdout is not None
            for _ in range(100):
                assert alerter.stdout.readline()
            alerter.kill()
    check_store(url, world)


def start(url: str, clock: str, target: str, step: str) -> subprocess.Popen[str]:
    """An alerter that says when it has passed, and kills itself when a pass has reached the step."""
    command = [sys.executable, "-c", ALERTER, url, clock, target, step]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def check_store(url: str, world: World) -> None:
    """What must hold whenever and however often the alerter was killed."""
    database = open_database(url, time_scale=1)
    reader = StoreReader(database)
    found = list(reader.incidents(IncidentFilter(), limit=1000)[0])

    active = Counter((item.subject, item.kind) for item in found if item.state.active)
    assert all(number == 1 for number in active.values())
    with database.read() as connection:
        columns = notice.c
        query = sa.select(columns.incident_id, columns.audience, columns.news)
        noticed = Counter(tuple(row) for row in connection.execute(query))
    for item in found:
        kinds = [event.kind for event in reader.events(item.id)]
        check_history(item, kinds)
        # Each event of an incident is to be told once, and to its user that it opened; reports are told nobody.
        for kind in (EventKind.OPENED, EventKind.REOPENED, EventKind.RESOLVED):
            assert noticed[item.id, "operators", kind.value] == (0 if item.kind == "report" else kinds.count(kind))
        assert noticed[item.id, "owner", EventKind.OPENED.value] == (item.kind == "efficiency")

    # A job that ended is neither found idle nor reported once more by whoever restores its counters.
    subjects = Counter((item.subject, item.kind) for item in found)
    assert subjects["slurm/1", "efficiency"] >= 1
    assert all(subject != "slurm/2" for subject, _ in subjects)
    assert all(number == 1 for (subject, _), number in subjects.items() if subject != "slurm/1")
    for item in found:
        if item.subject not in ("slurm/1", f"slurm/{100 + (world.minutes - 1) // 70}"):
            assert (item.state, item.resolution) == (State.RESOLVED, Resolution.ENDED)

    used = {usage.user: usage.allocated for usage in reader.users(since=0, until=1e12)}
    counted = world.exporter.allocations["slurm/2", 1].counters["allocated"]
    # One scrape before the first and one after the last are not in, and of the kills nothing is missing.
    assert abs(used["bob"] - counted) <= 3 * MINUTE
    assert abs(used["alice"] - used["bob"]) < 1
    # Hours of the fleet: each second of each GPU once at most.
    (fleet,) = reader.fleet(since=0, until=1e12)
    seconds = fleet.allocated + fleet.unallocated + fleet.unknown
    assert 0 < seconds <= world.exporter.gpus * world.minutes * MINUTE
    database.close()


def check_history(item: Incident, kinds: list[EventKind]) -> None:
    """The events tell exactly how the incident came to be as it is."""
    counted = Counter(kinds)
    assert kinds[0] is EventKind.OPENED
    assert counted[EventKind.OPENED] == 1
    assert counted[EventKind.REOPENED] == item.reopened
    assert counted[EventKind.RESOLVED] == item.reopened + (item.state is State.RESOLVED)
    ends = [kind for kind in kinds if kind in (EventKind.OPENED, EventKind.RESOLVED, EventKind.REOPENED)]
    expected = [EventKind.RESOLVED if i % 2 else EventKind.REOPENED for i in range(len(ends))]
    assert ends[1:] == expected[1:]
