"""An alerter evaluates from taking the lease to losing it, anew each time, and knows by itself when it must stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa

from dutycycle_alerter.errors import ConfigError, LeaseLostError, StoreError
from dutycycle_alerter.evaluator import Evaluator
from dutycycle_alerter.leadership import Leadership
from dutycycle_alerter.scheduler import Scheduler
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.store.clock import DatabaseClock
from dutycycle_alerter.store.database import Database, open_database
from dutycycle_alerter.store.lease import Lease, Term
from dutycycle_alerter.store.schema import lease as table
from tests.alerter.waiting import wait_until
from tests.fakes.clock import FakeClock

LENGTH = 60.0
LONG = 15.0
"""Of a lease in real time: a machine that stalls must not lose it between two renewals."""


@dataclass
class Work:
    """What evaluates in one term; says what was done with it."""

    term: Term
    said: list[str] = field(default_factory=list)
    closing: Callable[[], None] = lambda: None

    def start(self) -> None:
        self.said.append("started")

    def close(self) -> None:
        self.closing()
        self.said.append("closed")


class Replica:
    """One alerter's leadership over a database that it shares, with a clock that a test moves."""

    def __init__(self, url: str, name: str) -> None:
        self.database = open_database(url)
        self.clock = FakeClock()
        self.works: list[Work] = []
        self.trouble: Exception | None = None
        self.leadership = Leadership(Lease(self.database, name, LENGTH, monotonic=self.clock), self._begin)

    def _begin(self, term: Term) -> Work:
        if self.trouble is not None:
            raise self.trouble
        self.works.append(Work(term))
        return self.works[-1]

    @property
    def leads(self) -> bool:
        return self.leadership.standing().leads

    def turn(self) -> None:
        self.clock.advance(LENGTH / 4)
        self.leadership.turn()


@pytest.fixture
def pair(sqlite_url: str) -> Iterator[tuple[Replica, Replica]]:
    a, b = Replica(sqlite_url, "a"), Replica(sqlite_url, "b")
    yield a, b
    a.database.close()
    b.database.close()


def expire(database: Database) -> None:
    with database.write() as connection:
        connection.execute(sa.update(table).values(expires_at=0.0))


def test_the_first_evaluates_and_the_other_follows(pair: tuple[Replica, Replica]) -> None:
    a, b = pair
    for _ in range(9):
        a.turn()
        b.turn()
    assert (a.leads, b.leads) == (True, False)
    assert [work.said for work in a.works] == [["started"]]
    assert b.works == []
    mine, other = a.leadership.standing(), b.leadership.standing()
    assert (mine.epoch, mine.age, mine.lost, mine.replica) == (1, 0.0, 0, "a")
    assert (other.epoch, other.age, other.lost, other.replica) == (1, None, 0, "b")


def test_at_a_clean_stop_the_other_takes_over_at_its_next_look(pair: tuple[Replica, Replica]) -> None:
    a, b = pair
    a.turn()
    kept = []
    a.works[0].closing = lambda: kept.append(not a.works[0].term.over)
    a.leadership.stop()
    assert kept == [True], "what was scraped last is written before the lease is let go"
    b.turn()
    assert (a.leads, b.leads) == (False, True)
    assert b.leadership.standing().epoch == 2


def test_who_lost_the_lease_stops_and_begins_anew_when_it_has_it_again(pair: tuple[Replica, Replica]) -> None:
    a, b = pair
    a.turn()
    expire(a.database)
    b.turn()
    a.turn()
    assert (a.leads, b.leads) == (False, True)
    assert a.works[0].said == ["started", "closed"]
    assert a.leadership.standing().lost == 1
    b.leadership.stop()
    a.turn()
    assert a.leads
    assert [work.said for work in a.works] == [["started", "closed"], ["started"]]
    assert a.leadership.standing().epoch == 3


def test_who_cannot_renew_goes_on_for_as_long_as_the_lease_is_sure_and_then_stops(
    pair: tuple[Replica, Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = pair
    a.turn()

    def unreachable(*_: object, **__: object) -> None:
        raise StoreError("the server does not answer")

    monkeypatch.setattr(a.database, "write", unreachable)
    monkeypatch.setattr(a.database, "read", unreachable)
    for _ in range(3):
        with pytest.raises(StoreError):
            a.turn()
        assert a.leads
        assert a.works[0].said == ["started"]
    a.clock.advance(LENGTH / 4)
    assert not a.leads, "before any turn has noticed"
    with pytest.raises(StoreError):
        a.leadership.turn()
    assert a.works[0].said == ["started", "closed"]
    monkeypatch.undo()
    expire(a.database)
    a.turn()
    assert a.leads
    assert len(a.works) == 2


@pytest.mark.parametrize("trouble", [StoreError("no table gpu_series"), ConfigError("no such file")])
def test_who_cannot_begin_lets_another_try(pair: tuple[Replica, Replica], trouble: Exception) -> None:
    a, b = pair
    a.trouble = trouble
    with pytest.raises(type(trouble)):
        a.turn()
    assert not a.leads
    b.turn()
    assert b.leads
    b.leadership.stop()
    a.trouble = None
    a.turn()
    assert a.leads


def test_a_store_that_is_gone_at_the_end_is_told_and_the_end_comes(
    pair: tuple[Replica, Replica], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    a, _ = pair
    a.turn()

    def unreachable(*_: object, **__: object) -> None:
        raise StoreError("the server does not answer")

    monkeypatch.setattr(a.database, "write", unreachable)
    a.leadership.stop()
    assert a.works[0].said == ["started", "closed"]
    assert "ends by itself: the server does not answer" in caplog.text


def test_an_alerter_without_others_evaluates_at_once_also_after_a_kill(pair: tuple[Replica, Replica]) -> None:
    a, _ = pair
    Lease(a.database, "killed", LENGTH).take()
    leadership = Leadership(Lease(a.database, "a", LENGTH, alone=True), Work, alone=True)
    leadership.turn()
    standing = leadership.standing()
    assert (standing.leads, standing.shared, standing.epoch) == (True, False, 2)
    leadership.stop()


def test_beginning_may_take_longer_than_the_lease(postgres_url: str) -> None:
    """As it does where there is much to restore: it is renewed meanwhile, and nobody else has a term."""
    length, begun = LONG, threading.Event()
    database, other = open_database(postgres_url), open_database(postgres_url)
    clock = DatabaseClock(database)
    works: list[Work] = []

    def begin(term: Term) -> Work:
        first = clock()
        begun.set()
        wait_until(lambda: clock() > first + 1.2 * length)
        works.append(Work(term))
        return works[-1]

    a, b = Leadership(Lease(database, "a", length), begin), Leadership(Lease(other, "b", length), begin)
    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(a.turn)
        assert begun.wait(60)
        while not taking.done():
            b.turn()
            assert not b.standing().leads
            assert a.standing().leads
            time.sleep(0.1)
        taking.result()
    a.turn()
    assert [work.said for work in works] == [["started"]]
    assert (a.standing().leads, a.standing().epoch, a.standing().lost) == (True, 1, 0)
    assert a.evaluator is works[0]
    a.stop()
    database.close()
    other.close()


def test_a_term_lost_while_it_begins_is_left_and_let_go_of(sqlite_url: str) -> None:
    length, release = 0.2, threading.Event()
    database = open_database(sqlite_url)
    works: list[Work] = []

    def begin(term: Term) -> Work:
        work = Work(term)
        works.append(work)
        if term.epoch == 1:
            expire(database)
            assert release.wait(60)
        return work

    leadership = Leadership(Lease(database, "a", length), begin)
    leadership.turn()
    assert (leadership.standing().leads, leadership.standing().lost, leadership.standing().left) == (False, 1, 1)
    assert leadership.evaluator is None
    wait_until(lambda: leadership.turn() or leadership.evaluator is not None)
    assert works[1].said == ["started"], "what hangs keeps it from nothing"
    release.set()
    wait_until(lambda: leadership.standing().left == 0)
    assert works[0].said == ["closed"], "and it never started"
    leadership.stop()
    database.close()


def test_what_hangs_at_the_end_of_a_term_is_left_and_the_lease_looked_for_again(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()
    database = open_database(sqlite_url)
    works: list[Work] = []

    def begin(term: Term) -> Work:
        works.append(Work(term, closing=lambda: None if release.wait(60) else pytest.fail("never released")))
        return works[-1]

    leadership = Leadership(Lease(database, "a", LENGTH), begin, patience=0.05)
    leadership.turn()
    for terms in (1, 2):
        expire(database)
        leadership.turn()
        assert f"what evaluated in epoch {terms} has not ended" in caplog.text
        assert leadership.standing().left == terms
        assert works[-1].term.epoch == terms + (terms == 1)
    assert not leadership.standing().leads, "another may be luckier than a process in which all of them hang"
    with pytest.raises(LeaseLostError), works[0].term.write():
        raise AssertionError("nothing is to be done in it")
    release.set()
    wait_until(lambda: leadership.standing().left == 0)
    leadership.turn()
    assert leadership.standing().epoch == 3
    assert [work.said for work in works] == [["started", "closed"], ["started", "closed"], ["started"]]
    leadership.stop()
    database.close()


def test_the_lease_is_kept_while_the_end_waits_for_a_pass(postgres_url: str) -> None:
    length = LONG
    database = open_database(postgres_url)
    clock = DatabaseClock(database)
    over: list[bool] = []

    def begin(term: Term) -> Work:
        def closing() -> None:
            first = clock()
            wait_until(lambda: clock() > first + 1.2 * length)
            over.append(term.over)
            with term.write():
                pass

        return Work(term, closing=closing)

    leadership = Leadership(Lease(database, "a", length), begin)
    leadership.turn()
    leadership.stop()
    assert over == [False]
    assert Lease(database, "b", length).take() is not None, "and let go of at its end"
    database.close()


def test_a_task_that_finds_the_lease_lost_says_so_at_once(sqlite_url: str) -> None:
    """And does not leave it to the next renewal."""
    database, scheduler, lost = open_database(sqlite_url), Scheduler(), threading.Event()
    settings = Settings.model_validate({"time_scale": 120, "source": {"targets": ["http://127.0.0.1:1/"]}}).scaled()
    term = Lease(database, "a", LENGTH).take()
    assert term is not None
    evaluator = Evaluator(settings, term, time.time, scheduler, lost=lost.set)
    expire(database)
    evaluator.start()
    scheduler.start()
    assert lost.wait(60)
    evaluator.close()
    scheduler.stop()
    database.close()
