"""PostgreSQL fails at each step of passes: no incident is lost or doubled, usage is counted once, and the same alerter
goes on by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from dutycycle_alerter.engine import STEPS, Engine
from dutycycle_alerter.errors import LeaseLostError, StoreError
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.scrape import ScrapeSource
from dutycycle_alerter.store import incidents, patient, postgresql
from dutycycle_alerter.store.database import Database, open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.exporters import serving
from tests.alerter.rig import TIMEOUT
from tests.alerter.test_engine_killed import START, World, check_history
from tests.fakes.clock import FakeClock
from tests.postgres.server import PostgresServer

COMMITS = ("committing, kept", "committing, lost")
"""The connection breaks as a commit is on its way, before and after the server has it."""


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


class Passes:
    """An alerter over `test_engine_killed`'s node, minute by minute. `fault` is called where a pass reaches `at`: at a
    step after incidents were folded, in a pass that changes some.
    """

    def __init__(self, database: Database, target: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.clock, self.database = world, FakeClock(START), database
        self.at: str | None = None
        self.fault: Callable[[], None] = lambda: None
        self.away: Callable[[], None] = lambda: None
        self.errors: list[str] = []
        self._changed = False
        source = {"targets": [target], "interval": "1m", "timeout": TIMEOUT}
        self._settings = Settings.model_validate({"source": source}).scaled()
        self.terms = 0
        self._begin()
        save_all = incidents.save_all

        def saving(*arguments: object) -> object:
            self._changed = True
            return save_all(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(incidents, "save_all", saving)
        commit = patient.PatientConnection.commit

        def committing(connection: patient.PatientConnection) -> None:
            if self._due(COMMITS[0]):
                commit(connection)
            if self._due(*COMMITS):
                self.at = None
                self.away()
                connection.pgconn.finish()
                raise psycopg.OperationalError("server closed the connection unexpectedly")
            commit(connection)

        monkeypatch.setattr(patient.PatientConnection, "commit", committing)
        self._passing = False

    def _begin(self) -> None:
        """What evaluates, made anew from the store."""
        self.terms += 1
        self.source = ScrapeSource(self._settings, self.database, self.clock)
        self.engine = Engine(self._settings, self.source, self.database, self.clock, reached=self._reached)
        self.source.restore()

    def minute(self) -> bool:
        """Scrape and pass; False where that failed. Where the term is lost, the next one passes."""
        self.world.tick()
        self.clock.advance(60)
        self.source.scrape()
        self._passing, self._changed = True, False
        try:
            self.engine.run_pass()
        except LeaseLostError:
            self._begin()
            self.engine.run_pass()
        except StoreError as error:
            self.errors.append(str(error))
            return False
        finally:
            self._passing = False
        return True

    def through(self, at: str, fault: Callable[[], None], *, after: Callable[[], None] = lambda: None) -> bool:
        """Minutes until the fault has struck, and one more. Returns whether the pass that it struck was kept."""
        self.at, self.fault = at, fault
        for _ in range(200):
            kept = self.minute()
            if self.at is None:
                after()
                assert self.minute(), self.errors
                return kept
            assert kept, self.errors
        raise AssertionError(f"no pass reached {at}")

    def has_incidents(self) -> bool:
        return bool(StoreReader(self.database, self.clock).active_counts())

    def _reached(self, step: str) -> None:
        if self._due(step):
            self.at = None
            self.fault()

    def _due(self, *steps: str) -> bool:
        late = self.at in COMMITS or (self.at is not None and STEPS.index(self.at) >= STEPS.index("folded"))
        return self._passing and self.at in steps and (self._changed or not late)


@contextmanager
def going(server: PostgresServer, name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Passes]:
    """Passes over a database of the server, of which one was made; what must hold then is checked in the end."""
    world = World()
    with (
        serving(world.exporter.page) as (target,),
        closing(open_database(f"{server.url(name)}?connect_timeout=60", time_scale=1)) as database,
    ):
        passes = Passes(database, target, world, monkeypatch)
        passes.minute()
        first = world.exporter.allocations["slurm/2", 1].counters["allocated"]
        yield passes
        check(passes, first)
        passes.source.close()


def check(passes: Passes, first: float) -> None:
    """`first` is what bob's counter held at the first scrape: from then on every second is in the ledger once."""
    reader = StoreReader(passes.database, passes.clock)
    found = reader.incidents(IncidentFilter(), limit=1000)[0]
    active = Counter((item.subject, item.kind) for item in found if item.state.active)
    assert all(number == 1 for number in active.values())
    assert {item.subject for item in found} >= {"slurm/1", "slurm/100"}
    assert all(item.subject != "slurm/2" for item in found)
    for item in found:
        check_history(item, [event.kind for event in reader.events(item.id)])
    used = {usage.user: usage.allocated for usage in reader.users(since=0, until=1e12)}
    counted = passes.world.exporter.allocations["slurm/2", 1].counters["allocated"]
    assert used["bob"] == pytest.approx(counted - first, abs=1e-6)
    assert used["alice"] == pytest.approx(used["bob"], abs=1e-6)


@pytest.mark.parametrize("fault", ["connections ended", "server killed"])
def test_postgresql_fails_at_each_step_of_passes(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    name = own_server.create()

    def strike() -> None:
        if fault == "connections ended":
            own_server.terminate(name)
        else:
            own_server.kill()
            own_server.start()

    with going(own_server, name, monkeypatch) as passes:
        kept = {step: passes.through(step, strike) for step in (*STEPS, *COMMITS)}
        # Whoever has no transaction open does not notice.
        unnoticed = {"begun", "read", "judged", "committed", "done"}
        assert kept == {step: step in unnoticed for step in kept}
        # Only of the commit whose answer was lost the store had something that the alerter did not know.
        assert passes.terms == 2
        assert not any("\n" in error or "slurm/" in error for error in passes.errors)


def test_a_pass_over_a_server_that_hangs_fails_in_time_and_changes_nothing(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = own_server.create()
    with going(own_server, name, monkeypatch) as passes:
        while not passes.has_incidents():
            assert passes.minute()
        passes.at, passes.fault = "opened", own_server.freeze
        with monkeypatch.context() as impatient:
            for limit in ("READ_LIMIT", "WRITE_LIMIT", "_ANSWER_LIMIT"):
                impatient.setattr(postgresql, limit, 0.5)
            # A server that is only slow may be given up before the pass is where it hangs.
            while passes.at is not None:
                assert not passes.minute()
        own_server.thaw()
        assert "does not answer" in passes.errors[-1]
        for _ in range(70):
            assert passes.minute()


def test_commits_whose_answers_are_lost_while_the_server_stays_away_count_once(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = own_server.create()
    with going(own_server, name, monkeypatch) as passes:
        passes.away = own_server.kill
        for _ in range(3):
            assert not passes.through(COMMITS[0], lambda: None, after=own_server.start)
        for _ in range(71):
            assert passes.minute()
        assert passes.terms == 4


@pytest.mark.parametrize("lost", [1, 5])
def test_passes_that_a_server_lost_as_it_took_over_are_counted_again(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """A stand-by that lagged behind lacks the newest commits, also those of counters."""
    name = own_server.create()
    with going(own_server, name, monkeypatch) as passes:
        for _ in range(5):
            assert passes.minute()
        own_server.terminate(name)
        copy = own_server.create(template=name)
        for _ in range(lost):
            assert passes.minute()
        for one, other in ((name, "lost"), (copy, name)):
            own_server.terminate(one)
            own_server.execute(f"ALTER DATABASE {one} RENAME TO {other}")
        for _ in range(75):
            assert passes.minute(), passes.errors
        assert passes.terms == 2
        own_server.drop("lost")
