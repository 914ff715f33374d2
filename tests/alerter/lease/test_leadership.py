"""An alerter evaluates from taking the lease to losing it, anew each time, and knows by itself when it must stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa

from dutycycle_alerter.errors import ConfigError, StoreError
from dutycycle_alerter.leadership import Leadership
from dutycycle_alerter.store.database import Database, open_database
from dutycycle_alerter.store.lease import Lease, Term
from dutycycle_alerter.store.schema import lease as table
from tests.fakes.clock import FakeClock

LENGTH = 60.0


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
