"""The store over a PostgreSQL that hangs, ends connections, refuses, or dies in a commit: an error in time, and on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.store import migrating, patient, postgresql, reader
from dutycycle_alerter.store.database import Database, get_meta, open_database, set_meta
from tests.alerter.store.test_migrations import downgrade
from tests.postgres.server import PASSWORD, USER, PostgresServer


@pytest.fixture
def database(postgres_url: str) -> Iterator[Database]:
    opened = open_database(postgres_url, time_scale=1)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """For tests that stop it."""
    with PostgresServer() as server:
        yield server


@contextmanager
def impatient() -> Iterator[None]:
    """Limits that a test can wait for, only where something hangs: a server that is well may stall for longer."""
    connect = patient.PatientConnection.connect

    def connecting(*arguments: Any, **options: Any) -> Any:
        return connect(*arguments, **options | {"connect_timeout": 4})

    with pytest.MonkeyPatch.context() as patched:
        for name in ("READ_LIMIT", "WRITE_LIMIT", "_ANSWER_LIMIT"):
            patched.setattr(postgresql, name, 0.5)
        patched.setattr(patient, "THERE_LIMIT", 0.5)
        patched.setattr(patient.PatientConnection, "connect", connecting)
        yield


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


def value(database: Database, key: str) -> Any:
    with database.read() as connection:
        return get_meta(connection, key)


def keep(database: Database, key: str, kept: Any) -> None:
    with database.write() as connection:
        set_meta(connection, key, kept)


# Connections that end


def test_after_every_connection_was_ended_the_next_transaction_works(
    database: Database, postgres: PostgresServer, postgres_url: str
) -> None:
    keep(database, "one", 1)
    for _ in range(3):
        assert postgres.terminate(name_of(postgres_url)) >= 1
        assert value(database, "one") == 1
        postgres.terminate(name_of(postgres_url))
        keep(database, "one", 1)


def test_a_transaction_whose_connection_is_ended_is_an_error_and_leaves_nothing(
    database: Database, postgres: PostgresServer, postgres_url: str
) -> None:
    def interrupted() -> None:
        with database.write() as connection:
            set_meta(connection, "one", 1)
            postgres.terminate(name_of(postgres_url))

    with pytest.raises(StoreError, match=r"terminating connection|server closed the connection|connection is lost"):
        interrupted()
    assert value(database, "one") is None


def broken(connection: patient.PatientConnection, *, committed: bool) -> None:
    """The connection breaks as the commit is on its way: the server had it, or it did not."""
    if committed:
        psycopg.Connection.commit(connection)
    connection.pgconn.finish()
    raise psycopg.OperationalError("server closed the connection unexpectedly")


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_whose_answer_is_lost_is_an_error_whatever_became_of_it(
    database: Database, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """Whoever must not write it twice looks at what is there: `engine`."""
    monkeypatch.setattr(patient.PatientConnection, "commit", lambda self: broken(self, committed=committed))
    with pytest.raises(StoreError, match="server closed the connection"):
        keep(database, "one", 1)
    monkeypatch.undo()
    assert value(database, "one") == (1 if committed else None)


# A server that says nothing


def test_a_server_that_hangs_is_given_up_and_used_again_when_it_goes_on(own_server: PostgresServer) -> None:
    with closing(open_database(own_server.url(own_server.create()))) as database:
        keep(database, "one", 1)
        own_server.freeze()
        try:
            # A connection of the pool is tried, then a new one.
            with impatient(), pytest.raises(StoreError, match="timeout"):
                value(database, "one")
        finally:
            own_server.thaw()
        assert value(database, "one") == 1


def test_a_server_that_hangs_within_a_transaction_is_given_up(own_server: PostgresServer) -> None:
    with closing(open_database(own_server.url(own_server.create()))) as database:

        def interrupted() -> None:
            with database.write() as connection:
                set_meta(connection, "one", 1)
                own_server.freeze()
                set_meta(connection, "two", 2)

        try:
            with impatient(), pytest.raises(StoreError, match="does not answer within"):
                interrupted()
        finally:
            own_server.thaw()
        assert value(database, "one") is None
        keep(database, "one", 3)
        assert value(database, "one") == 3


def test_a_server_that_is_started_again_needs_no_restart_of_ours(own_server: PostgresServer) -> None:
    with closing(open_database(own_server.url(own_server.create()))) as database:
        keep(database, "one", 1)
        own_server.kill()
        for _ in range(2):
            with pytest.raises(StoreError, match="Connection refused"):
                value(database, "one")
        own_server.start()
        assert value(database, "one") == 1


def test_the_next_host_serves_where_one_is_gone_and_a_socket_serves_as_well(
    postgres: PostgresServer, postgres_url: str
) -> None:
    name, port = name_of(postgres_url), postgres.port
    hosts = f"host=127.0.0.1:1&host=127.0.0.1:{port}&target_session_attrs=read-write"
    for url in (
        f"postgresql://{USER}:{PASSWORD}@/{name}?{hosts}",
        f"postgresql://{USER}@/{name}?host={postgres.directory}&port={port}",
    ):
        with closing(open_database(url)) as database:
            keep(database, "one", 1)


# Writers


def test_a_writer_does_not_wait_without_end_for_another(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with database.write() as connection:
        set_meta(connection, "one", 1)
        monkeypatch.setattr(postgresql, "LOCK_WAIT", 0.25)
        with pytest.raises(StoreError, match="lock timeout"):
            keep(database, "two", 2)
        assert value(database, "one") is None
    assert (value(database, "one"), value(database, "two")) == (1, None)


def test_a_writer_that_stops_in_the_middle_is_ended_and_undone(
    database: Database, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "IDLE_LIMIT", 0.5)
    stopped = open_database(postgres_url)

    def paused() -> None:
        with stopped.write() as connection:
            set_meta(connection, "one", "stopped")
            keep(database, "one", "other")  # waits for the lock, which the server takes away

    with pytest.raises(StoreError, match="idle-in-transaction"):
        paused()
    stopped.close()
    assert value(database, "one") == "other"


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_writers_see_what_the_one_before_wrote_whatever_the_servers_default(
    postgres: PostgresServer, postgres_url: str, level: str
) -> None:
    postgres.execute(f"ALTER DATABASE {name_of(postgres_url)} SET default_transaction_isolation = '{level}'")
    failures: list[BaseException] = []
    with closing(open_database(postgres_url)) as database:

        def add() -> None:
            try:
                for _ in range(25):
                    with database.write() as connection:
                        set_meta(connection, "sum", (get_meta(connection, "sum") or 0) + 1)
            except BaseException as error:  # noqa: BLE001 - told by the main thread
                failures.append(error)

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert value(database, "sum") == 100


def test_one_that_is_not_alone_does_not_wait_for_a_pass(database: Database) -> None:
    with database.write() as connection:
        set_meta(connection, "one", 1)
        with database.write(alone=False) as other:
            set_meta(other, "two", 2)
        assert value(database, "two") == 2


def test_a_long_read_sees_one_moment_and_keeps_nobody_from_writing(database: Database) -> None:
    with database.read() as reading:
        assert get_meta(reading, "one") is None
        keep(database, "one", 1)
        assert get_meta(reading, "one") is None


def test_who_only_reads_cannot_write(database: Database) -> None:
    def write() -> None:
        with database.read() as connection:
            set_meta(connection, "one", 1)

    with pytest.raises(StoreError, match="read-only"):
        write()


def test_a_statement_that_takes_too_long_is_ended(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "LOCK_WAIT", 0.25)

    def slow() -> None:
        with database.read() as connection:
            connection.exec_driver_sql("SELECT pg_sleep(60)")

    began = time.monotonic()
    with impatient(), pytest.raises(StoreError, match=r"statement timeout|does not answer"):
        slow()
    assert time.monotonic() - began < 50


def test_many_threads_share_few_connections(database: Database, postgres: PostgresServer, postgres_url: str) -> None:
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for _ in range(20):
                value(database, "one")
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    rows = postgres.execute(
        "SELECT application_name, count(*) FROM pg_stat_activity WHERE datname = %s GROUP BY 1", name_of(postgres_url)
    )
    ((application, connections),) = rows
    assert application == "dutycycle"
    assert connections <= 20


def test_however_much_the_page_is_asked_connections_are_left_for_passes_and_the_lease(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "LOCK_WAIT", 0.1)
    people, asking, go_on = reader.StoreReader(database), threading.Semaphore(0), threading.Event()
    status = reader.load_status

    def waiting(*arguments: Any) -> Any:
        asking.release()
        go_on.wait(60)
        return status(*arguments)

    monkeypatch.setattr(reader, "load_status", waiting)
    threads = [threading.Thread(target=people.status) for _ in range(reader.AT_ONCE)]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            assert asking.acquire(timeout=60)
        for ask in (people.last_event_id, lambda: people.resolve(1, actor="alice")):
            with pytest.raises(StoreError, match="busy"):
                ask()
        keep(database, "one", 1)
        assert value(database, "one") == 1
    finally:
        go_on.set()
        for thread in threads:
            thread.join()
    assert people.last_event_id() == 0


def test_where_every_connection_is_in_use_the_error_says_so(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "LOCK_WAIT", 0.1)
    with closing(open_database(postgres_url)) as database, ExitStack() as held:
        for _ in range(20):
            held.enter_context(database.read())
        with pytest.raises(StoreError, match="every connection to it is in use"):
            value(database, "one")


# Secrets


def chain(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield f"{error!s} {error!r}"
        error = error.__cause__ or error.__context__


def test_the_password_may_be_in_a_file(postgres: PostgresServer, postgres_url: str, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    url = f"{postgres.url(name_of(postgres_url), password=None)}?password_file={secret}"
    secret.write_text(f"{PASSWORD}\n")
    open_database(url).close()
    secret.write_text("wrong-secret")
    with pytest.raises(StoreError, match="password authentication failed") as error:
        open_database(url)
    assert not any("wrong-secret" in text for text in chain(error.value))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        (b"", "no password"),
        (b"a\0b", "no password"),
        (b"\xff\xfe", "UTF-8"),
        (b"x" * 70_000, "too large"),
    ],
)
def test_a_password_file_that_holds_none_is_named(tmp_path: Path, content: bytes | None, said: str) -> None:
    secret = tmp_path / "password"
    if content is not None:
        secret.write_bytes(content)
    with pytest.raises(StoreError, match=f"{secret}.*{said}"):
        open_database(f"postgresql://{USER}@127.0.0.1:1/name?password_file={secret}")


def test_two_passwords_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="password_file names another"):
        open_database(f"postgresql://{USER}:{PASSWORD}@host/name?password_file={tmp_path}")


def test_what_libpq_reads_from_the_environment_holds(
    postgres: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = postgres.url(name_of(postgres_url), password=None)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    open_database(url).close()
    monkeypatch.delenv("PGPASSWORD")
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"127.0.0.1:*:*:{USER}:{PASSWORD}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    open_database(url).close()
    monkeypatch.delenv("PGPASSFILE")
    with pytest.raises(StoreError, match="no password supplied"):
        open_database(url)
    with pytest.raises(StoreError, match="SSL"):
        open_database(f"{postgres_url}?sslmode=require")


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_way_of_naming_postgresql_is_psycopg(postgres_url: str, scheme: str) -> None:
    open_database(f"{scheme}://{postgres_url.partition('://')[2]}").close()


@pytest.mark.parametrize(
    "url", ["postgresql+psycopg2://h/n", "postgresql+asyncpg://h/n", "mysql://h/n", "oracle://h/n"]
)
def test_other_drivers_and_databases_are_refused_with_the_remedy(url: str) -> None:
    with pytest.raises(StoreError, match=r"write .*postgresql://"):
        open_database(url)


def test_errors_show_neither_password_nor_values(database: Database, postgres_url: str) -> None:
    def conflict() -> None:
        with database.write() as connection:
            for _ in range(2):
                connection.exec_driver_sql("INSERT INTO meta (key, value) VALUES ('alice', '1')")

    errors = []
    for attempt in (
        conflict,
        lambda: open_database(postgres_url.replace("127.0.0.1", "host.invalid")),
        lambda: open_database(f"{postgres_url}?password={PASSWORD}&nosuchoption=1"),
        lambda: open_database(f"{postgres_url}?password={PASSWORD}&connect_timeout=soon"),
        lambda: open_database(f"{postgres_url}?sslrootcert=/nosuch&sslmode=verify-full"),
    ):
        with pytest.raises(StoreError) as error:
            attempt()
        errors.append(str(error.value))
        assert "\n" not in errors[-1]
    assert not any(PASSWORD in text or "alice" in text for text in errors)


def back_to_0004(url: str) -> None:
    """The next migration then changes the table of incidents."""
    with closing(open_database(url)) as database, database.write() as connection:
        downgrade(connection, "0004")


def test_a_migration_waits_for_a_table_in_use_and_keeps_nobody_waiting_behind_it(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_to_0004(empty_postgres_url)
    monkeypatch.setattr(postgresql, "MIGRATION_WAIT", 0.1)
    tries: list[float] = []
    with psycopg.connect(empty_postgres_url) as user:
        user.execute("SELECT count(*) FROM incident")

        def leave(_seconds: float) -> None:
            tries.append(_seconds)
            if len(tries) == 2:
                user.rollback()

        monkeypatch.setattr(migrating.time, "sleep", leave)
        open_database(empty_postgres_url).close()
        assert len(tries) == 2
        back_to_0004(empty_postgres_url)
        user.execute("SELECT count(*) FROM incident")
        monkeypatch.setattr(migrating, "_TRIES", 1)
        with pytest.raises(StoreError, match="lock timeout"):
            open_database(empty_postgres_url)
