"""Migrations make a store what the schema says, from any revision, and keep what it holds."""

import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.history import GPU_COUNTERS, GPU_GAUGES
from dutycycle_alerter.store import counters
from dutycycle_alerter.store.database import connect, get_meta, open_database, set_meta
from dutycycle_alerter.store.migrating import configuration, revisions
from dutycycle_alerter.store.schema import metadata
from tests.alerter.store.files import file_of
from tests.postgres.server import PostgresServer


def catalogue(path: Path) -> dict[str, str]:
    """Every table and index with the statement that made it, white space aside."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: " ".join(sql.replace('"', "").split()) for name, sql in rows if name != "alembic_version"}


def test_migrations_build_exactly_the_schema(empty_url: str) -> None:
    with closing(open_database(empty_url)) as database, database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_migrations_build_the_same_tables_and_indexes_as_the_schema_itself(sqlite_url: str, tmp_path: Path) -> None:
    """Also what a comparison of models leaves out: conditions of indexes, primary keys, actions on deletion, the width
    of numbers.
    """
    direct = tmp_path / "direct.sqlite3"
    open_database(sqlite_url).close()
    create_all(f"sqlite:///{direct}")
    migrated, wanted = catalogue(file_of(sqlite_url)), catalogue(direct)
    assert migrated.keys() == wanted.keys()
    assert "WHERE state != 'resolved'" in migrated["uq_incident_active"]
    for name, statement in wanted.items():
        assert sorted(_clauses(migrated[name])) == sorted(_clauses(statement)), name


def test_on_postgresql_as_well(postgres: PostgresServer) -> None:
    names = [postgres.create(), postgres.create()]
    open_database(postgres.url(names[0])).close()
    create_all(postgres.url(names[1]).replace("postgresql:", "postgresql+psycopg:"))
    migrated, wanted = (postgres_catalogue(postgres, name) for name in names)
    assert any("state" in definition and "WHERE" in definition for definition in wanted)
    assert any("incident_event.id bigint" in definition for definition in wanted)
    assert migrated == wanted
    for name in names:
        postgres.drop(name)


def create_all(url: str) -> None:
    engine = sa.create_engine(url)
    metadata.create_all(engine)
    engine.dispose()


def postgres_catalogue(postgres: PostgresServer, database: str) -> list[str]:
    """Every column, index and constraint, as PostgreSQL writes it."""
    queries = (
        """SELECT format('%s.%s %s %s', table_name, column_name, data_type, is_nullable)
        FROM information_schema.columns WHERE table_schema = 'public'""",
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
        """SELECT format('%s %s', conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace""",
        "SELECT format('%s %s', sequencename, data_type) FROM pg_sequences WHERE schemaname = 'public'",
    )
    rows = [row for query in queries for row in postgres.execute(query, database=database)]
    return sorted(text for (text,) in rows if "alembic_version" not in text)


def _clauses(statement: str) -> list[str]:
    return [clause.strip(" ,()") for clause in statement.replace(" (", ",").split(",")]


def test_opening_a_store_again_keeps_what_it_holds(url: str) -> None:
    for turn in range(3):
        database = open_database(url, time_scale=30)
        with database.write() as connection:
            assert get_meta(connection, "count") == (turn or None)
            set_meta(connection, "count", turn + 1)
        database.close()


def upgrade(connection: sa.Connection, revision: str) -> None:
    config = configuration()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def downgrade(connection: sa.Connection, revision: str) -> None:
    config = configuration()
    config.attributes["connection"] = connection
    command.downgrade(config, revision)


def test_every_revision_can_be_upgraded_from_with_its_rows(empty_url: str) -> None:
    """Each migration in turn, from an empty database, with a row in place from the first on."""
    assert revisions()[-1] == "0001"
    engine, _ = connect(empty_url)
    for revision in reversed(revisions()):
        with engine.begin() as connection:
            upgrade(connection, revision)
            if revision == "0001":
                connection.execute(sa.text("INSERT INTO meta (key, value) VALUES ('kept', '7')"))
    engine.dispose()
    database = open_database(empty_url)
    with database.read() as connection:
        assert get_meta(connection, "kept") == 7
    database.close()


def test_down_to_any_revision_and_up_again_is_the_same_schema(empty_url: str) -> None:
    engine, _ = connect(empty_url)
    with engine.begin() as connection:
        upgrade(connection, "head")
        for revision in (*revisions()[1:], "base"):
            downgrade(connection, revision)
            upgrade(connection, "head")
            assert compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata) == []
    engine.dispose()


def test_a_store_of_a_newer_version_is_refused_unchanged(url: str) -> None:
    open_database(url).close()
    engine, _ = connect(url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match=r"newer version of Dutycycle made it .*9999"):
        open_database(url)
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT version_num FROM alembic_version")).all() == [("9999",)]
    engine.dispose()


MAKER = """
import sys
from dutycycle_alerter.store.database import open_database, set_meta
print("ready", flush=True)
sys.stdin.readline()
database = open_database(sys.argv[1], time_scale=1)
with database.write() as connection:
    set_meta(connection, sys.argv[2], True)
database.close()
"""


def test_processes_that_start_at_once_on_an_empty_database_make_its_tables_once(empty_url: str) -> None:
    with ExitStack() as stack:
        makers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", MAKER, empty_url, str(number)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(3)
        ]
        for maker in makers:
            assert maker.stdout is not None
            assert maker.stdout.readline() == "ready\n"
        for maker in makers:
            assert maker.stdin is not None
            maker.stdin.write("\n")
            maker.stdin.flush()
        for maker in makers:
            _, said = maker.communicate()
            assert (maker.returncode, said) == (0, "")
    database = open_database(empty_url, time_scale=1)
    with database.read() as connection:
        assert [get_meta(connection, str(number)) for number in range(3)] == [True] * 3
    database.close()


def test_several_threads_may_make_the_same_store_at_once(empty_url: str) -> None:
    failures: list[BaseException] = []

    def make() -> None:
        try:
            open_database(empty_url, time_scale=1).close()
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failures.append(error)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_counters_of_the_first_schema_are_kept_and_what_was_not_counted_then_is_unknown(empty_url: str) -> None:
    engine, _ = connect(empty_url)
    with engine.begin() as connection:
        upgrade(connection, "0001")
        labels = '{"node": "a", "gpu": "0", "gpu_uuid": "u", "mig": "", "workload": "slurm/1"}'
        connection.execute(
            sa.text(
                "INSERT INTO gpu_series (id, node, gpu, gpu_uuid, mig, workload, labels, last_seen) "
                "VALUES (1, 'a', '0', 'u', '', 'slurm/1', :labels, 60)"
            ),
            {"labels": labels},
        )
        connection.execute(sa.text("INSERT INTO gpu_counter (series_id, t, busy, share) VALUES (1, 60, 30, 1)"))
    engine.dispose()
    database = open_database(empty_url)
    with database.read() as connection:
        ((_, (point,)),) = counters.load_series(connection, 0)
    database.close()
    known = dict(zip((*GPU_COUNTERS, *GPU_GAUGES), (*point.counters, *point.gauges), strict=True))
    assert {name: value for name, value in known.items() if value is not None} == {"busy": 30, "share": 1}
