"""Opening a store: it becomes what the schema says, keeps what it holds, and says what is wrong without secrets."""

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
from dutycycle_alerter.store.database import Database, connect, get_meta, open_database, set_meta
from dutycycle_alerter.store.migrating import configuration, revisions
from dutycycle_alerter.store.schema import metadata
from tests.postgres.server import PostgresServer


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def catalogue(path: Path) -> dict[str, str]:
    """Every table and index with the statement that made it, white space aside."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: " ".join(sql.replace('"', "").split()) for name, sql in rows if name != "alembic_version"}


# Migrations


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


# The time scale


def test_a_store_belongs_to_one_time_scale(url: str) -> None:
    open_database(url, time_scale=30).close()
    with pytest.raises(StoreError, match=r"time scale 30, not 1; use another database, or the same time_scale"):
        open_database(url, time_scale=1)
    open_database(url, time_scale=30).close()


def test_who_only_looks_takes_any_time_scale(url: str) -> None:
    open_database(url).close()
    open_database(url, time_scale=30).close()
    open_database(url).close()
    with pytest.raises(StoreError, match="time scale"):
        open_database(url, time_scale=2)


# A file that goes away


@pytest.mark.parametrize("pattern", ["store.sqlite3", "*"], ids=["the file alone", "its log as well"])
def test_a_file_that_was_removed_is_made_again_with_its_tables(sqlite_url: str, pattern: str) -> None:
    database = open_database(sqlite_url, time_scale=30)
    with database.write() as connection:
        set_meta(connection, "one", 1)
    for file in file_of(sqlite_url).parent.glob(pattern):
        file.unlink()
    with database.write() as connection:
        assert get_meta(connection, "one") is None
        set_meta(connection, "two", 2)
    with closing(sqlite3.connect(file_of(sqlite_url))) as connection:
        assert connection.execute("SELECT value FROM meta WHERE key = 'two'").fetchall() == [(2,)]
    database.close()
    with pytest.raises(StoreError, match="time scale 30"):
        open_database(sqlite_url, time_scale=1)


# What cannot be opened


@pytest.mark.parametrize("content", [b"not a database, but a text\n" * 100, b"SQLite format 3\x00" + b"\xff" * 4080])
def test_a_file_that_is_no_database_is_named_and_left_alone(sqlite_url: str, content: bytes) -> None:
    file_of(sqlite_url).write_bytes(content)
    with pytest.raises(StoreError) as error:
        open_database(sqlite_url)
    assert str(file_of(sqlite_url)) in str(error.value)
    assert file_of(sqlite_url).read_bytes() == content


def test_a_damaged_database_is_an_error_of_the_store(sqlite_url: str) -> None:
    database = open_database(sqlite_url, time_scale=1)
    with database.write() as connection:
        for i in range(2000):
            set_meta(connection, f"key{i}", "x" * 200)
    database.close()
    content = bytearray(file_of(sqlite_url).read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 2000] = b"\xa5" * 2000
    file_of(sqlite_url).write_bytes(bytes(content))

    def look() -> None:
        damaged = open_database(sqlite_url, time_scale=1)
        with closing(damaged), damaged.read() as connection:
            get_meta(connection, "key1999")

    with pytest.raises(StoreError) as error:
        look()
    assert str(file_of(sqlite_url)) in str(error.value)


@pytest.mark.parametrize("place", ["missing/store.sqlite3", "directory"])
def test_a_place_where_no_file_can_be_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "directory").mkdir()
    with pytest.raises(StoreError, match=place):
        open_database(f"sqlite:///{tmp_path / place}")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_store_in_memory_is_refused(url: str) -> None:
    """Each thread would get one of its own."""
    with pytest.raises(StoreError, match="needs a file"):
        open_database(url)


PASSWORD = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "dutycycle.sqlite3",
        "/var/lib/dutycycle.sqlite3",
        PASSWORD,
        f"://:{PASSWORD}@host",
        f"nosuch://dutycycle:{PASSWORD}@host/name",
        f"sqlite+nosuch:///{'x'}?password={PASSWORD}",
        f"postgresql+nosuch://dutycycle:{PASSWORD}@host/name",
        f"postgresql+nosuch://host/name?user=dutycycle&password={PASSWORD}",
        f"postgresql://dutycycle:{PASSWORD}@host:port/name",
        f"postgresql://dutycycle:{PASSWORD}@[::1/name",
        f"postgresql://dutycycle:x:{PASSWORD}/name",
        f"postgresql://host:{PASSWORD}",
        "sqlite:///store.sqlite3?timeout=soon",
    ],
)
def test_a_url_that_cannot_be_used_is_an_error_without_its_password(url: str) -> None:
    with pytest.raises(StoreError) as error:
        open_database(url)
    chain: BaseException | None = error.value
    while chain is not None:
        assert PASSWORD not in str(chain)
        chain = chain.__cause__


@pytest.mark.parametrize("name", ["with space", "100%", "%(here)s", "é", "a?b", "#x"])
def test_a_directory_may_have_any_name(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    directory.mkdir()
    url = sa.URL.create("sqlite", database=str(directory / "store.sqlite3")).render_as_string()
    open_database(url, time_scale=1).close()
    assert (directory / "store.sqlite3").exists()


# Transactions


def test_a_transaction_is_kept_whole_or_not_at_all(database: Database) -> None:
    def interrupted() -> None:
        with database.write() as connection:
            set_meta(connection, "one", 1)
            raise RuntimeError("power")

    with pytest.raises(RuntimeError, match="power"):
        interrupted()
    with database.read() as connection:
        assert get_meta(connection, "one") is None


def test_a_reader_sees_one_state_and_never_waits(database: Database) -> None:
    with database.read() as reading:
        assert get_meta(reading, "one") is None
        with database.write() as writing:
            set_meta(writing, "one", 1)
        assert get_meta(reading, "one") is None
    with database.read() as reading:
        assert get_meta(reading, "one") == 1


def test_who_opens_a_store_to_look_does_not_wait_for_a_writer(database: Database, url: str) -> None:
    """Not even while a pass has the write lock: ten seconds of busy time-out would be a StoreError here."""
    with database.write() as writing:
        set_meta(writing, "one", 1)
        looking = open_database(url)
        with looking.read() as connection:
            assert get_meta(connection, "one") is None
        looking.close()


def test_a_writing_transaction_takes_the_lock_before_it_reads(sqlite_url: str) -> None:
    """Two that read first and write then could not both go on."""
    database = open_database(sqlite_url)
    with database.write() as connection:
        get_meta(connection, "one")
        other = sqlite3.connect(file_of(sqlite_url), timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.close()
    database.close()


ADDER = """
import sys
from dutycycle_alerter.store.database import get_meta, open_database, set_meta
database = open_database(sys.argv[1])
for _ in range(100):
    with database.write() as connection:
        set_meta(connection, "sum", (get_meta(connection, "sum") or 0) + 1)
database.close()
"""


def test_what_writers_read_stays_as_it_is_until_they_have_written(database: Database, url: str) -> None:
    """Also where there was nothing to lock at first. Each adds one to what it finds, a hundred times."""
    with ExitStack() as stack:
        command = [sys.executable, "-c", ADDER, url]
        adders = [stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True)) for _ in range(2)]
        for adder in adders:
            assert adder.communicate()[1] == ""
    with database.read() as connection:
        assert get_meta(connection, "sum") == 200


def test_an_error_shows_no_values_of_the_statement(database: Database) -> None:
    """They carry names of people."""

    def twice() -> None:
        with database.write() as connection:
            for _ in range(2):
                connection.execute(sa.insert(metadata.tables["meta"]).values(key="k", value="alice's password"))

    with pytest.raises(StoreError) as error:
        twice()
    assert "alice" not in str(error.value)


READER = """
import sys
from dutycycle_alerter.store.database import get_meta, open_database
database = open_database(sys.argv[1])
last = 0
print("ready", flush=True)
while last < 200:
    with database.read() as connection:
        first, second = get_meta(connection, "first") or 0, get_meta(connection, "second") or 0
    assert first == second >= last, (first, second, last)
    last = first
database.close()
"""


def test_another_process_reads_whole_states_while_this_one_writes(database: Database, url: str) -> None:
    with subprocess.Popen([sys.executable, "-c", READER, url], stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        for number in range(1, 201):
            with database.write() as connection:
                set_meta(connection, "first", number)
                set_meta(connection, "second", number)
        assert reader.wait() == 0


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
