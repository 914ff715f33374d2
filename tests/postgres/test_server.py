"""The tests' own PostgreSQL does what tests of failures ask of it."""

import psycopg
import pytest

from dutycycle_alerter.store.database import get_meta, open_database, set_meta
from tests.postgres.server import PASSWORD, USER, PostgresServer


def test_a_store_can_be_made_copied_and_dropped(postgres: PostgresServer, postgres_url: str) -> None:
    database = open_database(postgres_url, time_scale=30)
    with database.write() as connection:
        set_meta(connection, "one", [1])
    with database.read() as connection:
        assert get_meta(connection, "one") == [1]
    database.close()
    copied = postgres.create(template=postgres_url.rpartition("/")[2])
    database = open_database(postgres.url(copied))
    with database.read() as connection:
        assert get_meta(connection, "one") == [1]
    database.close()
    postgres.drop(copied)


def test_passwords_are_asked_for(postgres: PostgresServer) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.url("postgres", password="wrong"))
    with psycopg.connect(postgres.url("postgres")) as connection:
        assert connection.execute("SELECT current_user").fetchone() == (USER,)
    assert PASSWORD not in postgres.log


def test_what_was_committed_survives_a_kill_and_connections_do_not() -> None:
    with PostgresServer() as server:
        url = server.url(server.create())
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
            connection.commit()
            server.kill()
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(url)
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        server.start()
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (7,)
            assert server.terminate(connection.info.dbname) == 1
            with pytest.raises(psycopg.OperationalError, match="terminating connection"):
                connection.execute("SELECT 1")
        server.freeze()
        with pytest.raises(psycopg.OperationalError, match="timeout"):
            psycopg.connect(url, connect_timeout=2)
        server.thaw()
        psycopg.connect(url).close()
