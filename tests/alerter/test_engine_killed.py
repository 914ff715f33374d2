"""kill -9 at any moment of scrapes and passes, and at each step of a pass: what a new process finds in the store is
whole, and nothing is twice.
"""

import random
import signal
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
from tests.alerter.killable import KillableAlerter

START = 1_750_000_000.0
MINUTE = 60.0
KILLS = 6


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
            with KillableAlerter(url, clock, target) as alerter:
                # The moment is any: within a scrape, a pass, a commit, or the first steps after a start.
                for _ in range(chance.randrange(3, 120) if kill < KILLS else 100):
                    alerter.passed()
                time.sleep(0.02 * chance.random())
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
            with KillableAlerter(url, clock, target, step) as alerter:
                assert alerter.wait() == -signal.SIGKILL
        with KillableAlerter(url, clock, target) as alerter:
            for _ in range(100):
                alerter.passed()
    check_store(url, world)


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
