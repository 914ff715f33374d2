"""One holder at a time, by the database's clock; what is written is written in the holder's term or not at all."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from dutycycle_alerter.errors import LeaseLostError, StoreError
from dutycycle_alerter.store import postgresql
from dutycycle_alerter.store.clock import DatabaseClock, database_time
from dutycycle_alerter.store.database import Database, connect, get_meta, open_database, set_meta
from dutycycle_alerter.store.lease import NAME, Lease, Term, load_evaluating
from dutycycle_alerter.store.schema import lease as table
from dutycycle_alerter.store.silent import end_silent
from tests.fakes.clock import FakeClock
from tests.postgres.server import PostgresServer

LONG = 3600.0


def taken(lease: Lease) -> Term:
    term = lease.take()
    assert term is not None
    return term


def expire(database: Database, by: float = 1.0) -> None:
    """As if so many seconds had gone by since the lease's end."""
    with database.write() as connection:
        connection.execute(sa.update(table).values(expires_at=table.c.expires_at - LONG - by))


def test_nobody_has_it_before_the_first(database: Database) -> None:
    assert Lease(database, "a", LONG).look() == (None, True)
    with database.read() as connection:
        assert load_evaluating(connection) is None


def test_who_takes_it_keeps_others_out_until_it_is_over(database: Database) -> None:
    a, b = Lease(database, "a", LONG), Lease(database, "b", LONG)
    first = taken(a)
    seen, free = b.look()
    assert seen is not None
    assert (seen.replica, seen.epoch, free) == ("a", 1, False)
    assert b.take() is None
    expire(database)
    assert b.look()[1]
    second = taken(b)
    assert (first.epoch, second.epoch) == (1, 2)
    assert a.take() is None


def test_each_term_has_an_epoch_of_its_own_also_of_the_same_holder(database: Database) -> None:
    lease = Lease(database, "a", LONG)
    first = taken(lease)
    assert lease.take() is None, "an alerter that was replaced by one of the same name may still be there"
    first.release()
    assert taken(lease).epoch == 2
    with pytest.raises(LeaseLostError):
        first.renew()


def test_a_released_lease_can_be_taken_at_once(database: Database) -> None:
    a, b = Lease(database, "a", LONG), Lease(database, "b", LONG)
    term = taken(a)
    term.release()
    assert term.over
    assert taken(b).epoch == 2
    term.release()
    assert b.look()[0] is not None
    assert not a.look()[1], "a release of an earlier term changes nothing"


def test_who_is_alone_waits_for_nobody(database: Database) -> None:
    taken(Lease(database, "killed", LONG))
    assert taken(Lease(database, "a", LONG, alone=True)).epoch == 2


def test_renewing_and_writing_make_it_longer(database: Database) -> None:
    def end() -> float:
        with database.read() as connection:
            known = load_evaluating(connection)
        assert known is not None
        return known.expires_at

    term = taken(Lease(database, "a", LONG))
    before = end()
    term.renew()
    renewed = end()
    assert renewed > before
    with term.write() as connection:
        set_meta(connection, "x", 1)
    assert end() > renewed


@pytest.mark.parametrize("how", ["expired", "taken", "removed", "another's"])
def test_nothing_is_written_in_a_lost_term(database: Database, how: str) -> None:
    term = taken(Lease(database, "a", LONG))
    with term.write() as connection:
        set_meta(connection, "x", "kept")
    if how == "removed":
        with database.write() as connection:
            connection.execute(sa.delete(table))
    elif how == "another's":
        # A database from a backup, in which another began this epoch.
        with database.write() as connection:
            connection.execute(sa.update(table).values(holder="b"))
    else:
        expire(database)
        if how == "taken":
            taken(Lease(database, "b", LONG))
    with pytest.raises(LeaseLostError, match="epoch 1 is over"), term.write():
        raise AssertionError("nothing is to be done in it")
    with pytest.raises(LeaseLostError):
        term.renew()
    assert term.over
    with database.read() as connection:
        assert get_meta(connection, "x") == "kept"


def test_a_lost_term_is_known_without_the_database(database: Database) -> None:
    """An alerter that is cut off stops by itself: when it cannot know that the lease is still its own."""
    now = FakeClock()
    term = taken(Lease(database, "a", 60.0, monotonic=now))
    now.advance(59)
    assert not term.over
    term.renew()
    now.advance(59)
    assert not term.over
    now.advance(1)
    assert term.over
    database.close()
    with pytest.raises(LeaseLostError), term.write():
        raise AssertionError("nothing is to be done in it")


def test_a_transaction_longer_than_the_lease_is_committed_and_keeps_it(database: Database) -> None:
    """Nobody could have it meanwhile: its row is locked."""
    now = FakeClock()
    term = taken(Lease(database, "a", 60.0, monotonic=now))
    with term.write() as connection:
        connection.execute(sa.update(table).values(expires_at=0.0))  # as time would
        now.advance(100)
        set_meta(connection, "x", 1)
    assert not term.over
    term.renew()


def test_an_error_within_a_transaction_undoes_it_and_ends_no_term(database: Database) -> None:
    term = taken(Lease(database, "a", LONG))

    def fails() -> None:
        with term.write() as connection:
            set_meta(connection, "x", 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    with term.read() as connection:
        assert get_meta(connection, "x") is None
    term.renew()


def test_a_database_whose_clock_was_set_back_is_not_without_evaluator_for_that_long(database: Database) -> None:
    taken(Lease(database, "killed", LONG))
    with database.write() as connection:
        connection.execute(sa.update(table).values(expires_at=table.c.expires_at + 0.9 * LONG))
    other = Lease(database, "b", 60.0)
    assert other.take() is None, "it may be that of a holder whose lease is longer than ours"
    with database.write() as connection:
        connection.execute(sa.update(table).values(expires_at=table.c.expires_at + 0.2 * LONG))
    assert taken(other).epoch == 2


def between_statements(connection: sa.Connection) -> None:
    """Nothing is under way."""


def sending(connection: sa.Connection) -> None:
    """The first message (Parse) of a statement, without those that end it."""
    raw = connection.connection.driver_connection
    assert raw is not None
    message = b"\0SELECT 1\0\0\0"
    os.write(raw.fileno(), b"P" + (len(message) + 4).to_bytes(4, "big") + message)


def receiving(connection: sa.Connection) -> None:
    """An answer that fits in no buffer, of which nothing is read."""
    raw = connection.connection.driver_connection
    assert raw is not None
    raw.pgconn.send_query(b"SELECT repeat('x', 3000) FROM generate_series(1, 20000)")


@pytest.mark.parametrize("stop", [between_statements, sending, receiving])
def test_who_stops_in_the_middle_of_a_transaction_is_ended_by_the_database(
    postgres_url: str, stop: Callable[[sa.Connection], None]
) -> None:
    """As a process does that is paused, or cut off, while it holds the lease's row."""
    database, other = open_database(postgres_url), open_database(postgres_url)
    a, b = Lease(database, "a", 0.3, monotonic=FakeClock()), Lease(other, "b", 0.3)
    term = taken(a)
    took_over: list[Term] = []

    def write() -> None:
        with term.write() as connection:
            set_meta(connection, "x", "paused")
            stop(connection)
            while not took_over:
                if b.look()[1] and (next_term := b.take()) is not None:
                    took_over.append(next_term)

    with pytest.raises(StoreError, match="in progress" if stop is receiving else "terminating connection"):
        write()
    assert took_over[0].epoch == 2
    with other.read() as connection:
        assert get_meta(connection, "x") is None
    with pytest.raises(LeaseLostError):
        term.renew()
    database.close()
    other.close()


def test_of_those_who_are_the_first_on_a_new_database_one_has_it(postgres_url: str) -> None:
    """And the others an answer, also where each began before any of them had made the row."""
    databases = [open_database(postgres_url) for _ in range(4)]
    for _ in range(5):
        with databases[0].write() as connection:
            connection.execute(sa.delete(table))
        together = threading.Barrier(len(databases))

        def take(database: Database, together: threading.Barrier = together) -> Term | None:
            together.wait()
            return Lease(database, "a", LONG).take()

        with ThreadPoolExecutor(len(databases)) as pool:
            terms = [term for term in pool.map(take, databases) if term is not None]
        assert [term.epoch for term in terms] == [1]
    for database in databases:
        database.close()


def test_who_finds_no_row_while_another_makes_it_waits_for_it(postgres_url: str) -> None:
    database, other = open_database(postgres_url), open_database(postgres_url)
    with ThreadPoolExecutor(1) as pool:
        with database.write(alone=False) as connection:
            row = {"name": NAME, "holder": "a", "epoch": 1, "length": LONG, "expires_at": time.time() + LONG}
            connection.execute(sa.insert(table).values(row))
            taking = pool.submit(Lease(other, "b", LONG).take)
            wait_for_a_waiter(connection, taking)
        assert taking.result() is None
    database.close()
    other.close()


def wait_for_a_waiter(connection: sa.Connection, waiter: Future[Term | None]) -> None:
    """Until somebody waits for a lock, which is what `waiter` must do."""
    waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    while not connection.execute(waiting).scalar():
        assert not waiter.done(), "it did not wait"


def end_in(database: Database, seconds: float) -> None:
    with database.write() as connection:
        connection.execute(sa.update(table).values(expires_at=database_time() + seconds))


def test_who_would_take_over_waits_for_the_transaction_that_holds_the_row(postgres_url: str) -> None:
    """Its lease is over meanwhile, but it works: what it writes is kept, and the lease stays its own."""
    database, other = open_database(postgres_url), open_database(postgres_url)
    term, b = taken(Lease(database, "a", LONG)), Lease(other, "b", LONG)
    end_in(other, 1.0)
    with ThreadPoolExecutor(1) as pool:
        with term.write() as connection:
            while not b.look()[1]:
                connection.execute(sa.select(1))
            with other.read() as reading:
                known = load_evaluating(reading)
            assert known is not None
            assert (known.replica, known.epoch) == ("a", 1)
            assert known.expires_at > time.time(), "nobody else can have it, so it is not over"
            taking = pool.submit(b.take)
            wait_for_a_waiter(connection, taking)
            set_meta(connection, "x", "kept")
        assert taking.result() is None
    term.renew()
    with term.read() as reading:
        assert get_meta(reading, "x") == "kept"
    database.close()
    other.close()


@pytest.mark.parametrize(
    "change", [sa.delete(table), sa.update(table).values(holder="b"), sa.update(table).values(epoch=2)]
)
def test_what_was_written_is_undone_where_the_row_is_not_ours_at_the_end(
    database: Database, change: sa.Executable
) -> None:
    term = taken(Lease(database, "a", LONG))

    def write() -> None:
        with term.write() as connection:
            set_meta(connection, "x", 1)
            connection.execute(change)

    with pytest.raises(LeaseLostError):
        write()
    assert term.over
    with term.read() as connection:
        assert get_meta(connection, "x") is None


def test_a_renewal_during_a_transaction_of_our_own_does_not_wait_for_it(database: Database) -> None:
    """The transaction holds the row for longer than the lease, and is heard of: the term goes on."""
    now = FakeClock()
    term = taken(Lease(database, "a", 60.0, monotonic=now))
    with term.write() as connection:
        for _ in range(20):
            now.advance(20)
            assert not term.over
            term.renew()
            connection.execute(sa.select(1))
    assert not term.over
    now.advance(59)
    assert not term.over
    now.advance(1)
    assert term.over


def test_a_transaction_of_which_the_server_hears_nothing_holds_nothing(database: Database) -> None:
    """It is ended by the server then: who hangs in the middle of one does not count as evaluating for ever."""
    now = FakeClock()
    term = taken(Lease(database, "a", 20.0, monotonic=now))
    with term.write():
        now.advance(20)
        assert term.over
        with pytest.raises(LeaseLostError):
            term.renew()


def test_a_renewal_counts_from_before_it_was_asked_for(database: Database) -> None:
    """The answer may have taken long, and the database counts from when it wrote."""
    now = FakeClock()

    class Slow(DatabaseClock):
        def tell(self, *arguments: Any, **more: Any) -> Any:
            row = super().tell(*arguments, **more)
            now.advance(40)
            return row

    term = taken(Lease(database, "a", 60.0, clock=Slow(database), monotonic=now))
    term.renew()
    assert term.age == 40
    now.advance(20)
    assert term.over


def test_a_renewal_ends_a_replica_that_stopped_while_it_held_the_writers_lock(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that only serves pages, and was writing what somebody did there."""
    monkeypatch.setattr("dutycycle_alerter.store.lease.IDLE_LIMIT", 0.1)
    database, other = open_database(postgres_url), open_database(postgres_url)
    term = taken(Lease(database, "a", LONG))

    def serve() -> None:
        with other.write() as connection:
            number = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
            sending(connection)
            alive = sa.text("SELECT count(*) FROM pg_stat_activity WHERE pid = :number")
            there = 1
            while there:
                term.renew()
                with database.read() as reading:
                    there = reading.execute(alive, {"number": number}).scalar_one()

    with pytest.raises(StoreError, match="terminating connection"):
        serve()
    database.close()
    other.close()


WRITERS_LOCK = f"SELECT pg_advisory_xact_lock({postgresql.WRITERS})"


@pytest.mark.parametrize(
    ("statement", "ended"),
    [
        pytest.param(WRITERS_LOCK, 1, id="the writers' lock"),
        pytest.param("SELECT 1 FROM lease FOR UPDATE", 1, id="the lease's row"),
        pytest.param("SELECT pg_advisory_xact_lock(1)", 0, id="another program's lock"),
        pytest.param(f"SELECT pg_advisory_xact_lock({postgresql.WRITERS & 0xFFFFFFFF})", 0, id="half of the number"),
        pytest.param(f"SET application_name = '{postgresql.MIGRATING}'; {WRITERS_LOCK}", 0, id="a migration"),
        pytest.param("SELECT 1 FROM lease", 0, id="a reader"),
    ],
)
def test_only_who_holds_what_alerters_need_is_ended(postgres_url: str, statement: str, ended: int) -> None:
    database = open_database(postgres_url)
    taken(Lease(database, "a", LONG))
    with psycopg.connect(postgres_url) as silent:
        silent.execute(statement)  # type: ignore[call-overload]
        with database.read() as connection:
            assert end_silent(connection, 0.0) == ended
        silent.close()
    database.close()


def test_a_migration_says_that_it_is_one(postgres_url: str) -> None:
    engine, _ = connect(postgres_url)
    database = open_database(postgres_url)
    with engine.begin() as connection:
        postgresql.lock_to_migrate(connection)
        with database.read() as other:
            assert end_silent(other, 0.0) == 0
        assert connection.execute(sa.select(1)).scalar() == 1
    database.close()
    engine.dispose()


def test_sessions_of_other_users_are_left_alone(postgres: PostgresServer, postgres_url: str) -> None:
    """Also by a user who may see what they do: the server would refuse to end them, and nobody would take the lease."""
    name = postgres_url.rpartition("/")[2]
    postgres.execute("CREATE ROLE watcher LOGIN PASSWORD 'seen' IN ROLE pg_monitor")
    engine, _ = connect(postgres.url(name, user="watcher", password="seen"))
    try:
        with psycopg.connect(postgres_url) as silent, engine.connect() as watcher:
            silent.execute(WRITERS_LOCK.encode())
            seen = sa.text("SELECT wait_event FROM pg_stat_activity WHERE pid = :number")
            assert watcher.execute(seen, {"number": silent.info.backend_pid}).scalar() == "ClientRead"
            assert end_silent(watcher, 0.0) == 0
            silent.execute("SELECT 1")
    finally:
        engine.dispose()
        postgres.execute("DROP ROLE watcher")


def test_alerters_of_one_name_are_told_apart_and_shown_by_it(database: Database) -> None:
    """As those are that share a configuration which names them. In a database from a backup, epochs come again."""
    first = taken(Lease(database, "dutycycle#1", LONG))
    with database.write() as connection:
        connection.execute(sa.update(table).values(epoch=0, expires_at=0.0))
    second = taken(Lease(database, "dutycycle#1", LONG))
    assert first.epoch == second.epoch
    with pytest.raises(LeaseLostError):
        first.renew()
    with database.read() as connection:
        known = load_evaluating(connection)
    assert known is not None
    assert known.replica == "dutycycle#1"


def test_a_machine_that_was_suspended_has_lost_its_term(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    term, true, asleep = taken(Lease(database, "a", LONG)), time.clock_gettime, 0.0
    monkeypatch.setattr(time, "clock_gettime", lambda which: true(which) + asleep * (which == time.CLOCK_BOOTTIME))
    assert not term.over
    asleep = LONG
    assert term.over
