"""Opening a store: it becomes what the schema says, keeps what it holds, and says what is wrong without secrets."""

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.history import GPU_COUNTERS, GPU_GAUGES
from dutycycle_alerter.store import counters
from dutycycle_alerter.store.database import MIGRATIONS, Database, get_meta, open_database, set_meta
from dutycycle_alerter.store.schema import metadata


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def catalogue(path: Path) -> dict[str, str]:
    """Every table and index with the statement that made it, white space aside."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: " ".join(sql.replace('"', "").split()) for name, sql in rows if name != "alembic_version"}


# Migrations


def test_migrations_build_exactly_the_schema(database: Database) -> None:
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_migrations_build_the_same_tables_and_indexes_as_the_schema_itself(
    database: Database, url: str, tmp_path: Path
) -> None:
    """Also what a comparison of models leaves out: conditions of indexes, primary keys, actions on deletion."""
    direct = tmp_path / "direct.sqlite3"
    engine = sa.create_engine(f"sqlite:///{direct}")
    metadata.create_all(engine)
    engine.dispose()
    migrated, wanted = catalogue(file_of(url)), catalogue(direct)
    assert migrated.keys() == wanted.keys()
    assert "WHERE state != 'resolved'" in migrated["uq_incident_active"]
    for name, statement in wanted.items():
        assert sorted(_clauses(migrated[name])) == sorted(_clauses(statement)), name


def _clauses(statement: str) -> list[str]:
    return [clause.strip(" ,()") for clause in statement.replace(" (", ",").split(",")]


def test_opening_a_store_again_keeps_what_it_holds(url: str) -> None:
    for turn in range(3):
        database = open_database(url, time_scale=30)
        with database.write() as connection:
            assert get_meta(connection, "count") == (turn or None)
            set_meta(connection, "count", turn + 1)
        database.close()


def test_every_revision_can_be_upgraded_from_with_its_rows(url: str) -> None:
    """Each migration in turn, from an empty database, with a row in place from the first on."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    revisions = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()][::-1]
    assert revisions[0] == "0001"
    engine = sa.create_engine(url)
    for i, revision in enumerate(revisions):
        from alembic import command

        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
            if i == 0:
                connection.execute(sa.text("INSERT INTO meta (key, value) VALUES ('kept', '7')"))
    engine.dispose()
    database = open_database(url)
    with database.read() as connection:
        assert get_meta(connection, "kept") == 7
    database.close()


def test_a_store_of_a_newer_version_is_refused_unchanged(url: str) -> None:
    open_database(url).close()
    with closing(sqlite3.connect(file_of(url))) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="9999"):
        open_database(url)
    with closing(sqlite3.connect(file_of(url))) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]


def test_several_may_make_the_same_store_at_once(url: str) -> None:
    failures: list[BaseException] = []

    def make() -> None:
        try:
            open_database(url, time_scale=1).close()
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
def test_a_file_that_was_removed_is_made_again_with_its_tables(url: str, pattern: str) -> None:
    database = open_database(url, time_scale=30)
    with database.write() as connection:
        set_meta(connection, "one", 1)
    for file in file_of(url).parent.glob(pattern):
        file.unlink()
    with database.write() as connection:
        assert get_meta(connection, "one") is None
        set_meta(connection, "two", 2)
    with closing(sqlite3.connect(file_of(url))) as connection:
        assert connection.execute("SELECT value FROM meta WHERE key = 'two'").fetchall() == [(2,)]
    database.close()
    with pytest.raises(StoreError, match="time scale 30"):
        open_database(url, time_scale=1)


# What cannot be opened


@pytest.mark.parametrize("content", [b"not a database, but a text\n" * 100, b"SQLite format 3\x00" + b"\xff" * 4080])
def test_a_file_that_is_no_database_is_named_and_left_alone(url: str, content: bytes) -> None:
    file_of(url).write_bytes(content)
    with pytest.raises(StoreError) as error:
        open_database(url)
    assert str(file_of(url)) in str(error.value)
    assert file_of(url).read_bytes() == content


def test_a_damaged_database_is_an_error_of_the_store(url: str) -> None:
    database = open_database(url, time_scale=1)
    with database.write() as connection:
        for i in range(2000):
            set_meta(connection, f"key{i}", "x" * 200)
    database.close()
    content = bytearray(file_of(url).read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 2000] = b"\xa5" * 2000
    file_of(url).write_bytes(bytes(content))

    def look() -> None:
        damaged = open_database(url, time_scale=1)
        with closing(damaged), damaged.read() as connection:
            get_meta(connection, "key1999")

    with pytest.raises(StoreError) as error:
        look()
    assert str(file_of(url)) in str(error.value)


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


def test_a_writing_transaction_takes_the_lock_before_it_reads(database: Database, url: str) -> None:
    """Two that read first and write then could not both go on."""
    with database.write() as connection:
        get_meta(connection, "one")
        other = sqlite3.connect(file_of(url), timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.close()


def test_an_error_shows_no_values_of_the_statement(database: Database) -> None:
    """They carry names of people."""

    def twice() -> None:
        with database.write() as connection:
            for _ in range(2):
                connection.execute(sa.insert(metadata.tables["meta"]).values(key="k", value="alice's password"))

    with pytest.raises(StoreError) as error:
        twice()
    assert "alice" not in str(error.value)


def test_text_that_is_no_unicode_is_an_error_of_the_store(database: Database) -> None:
    """Bytes of a command line that are no UTF-8 come as lone surrogates."""

    def odd() -> None:
        with database.write() as connection:
            set_meta(connection, "\udcff", 1)

    with pytest.raises(StoreError):
        odd()


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


def test_counters_of_the_first_schema_are_kept_and_what_was_not_counted_then_is_unknown(url: str) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
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
    database = open_database(url)
    with database.read() as connection:
        ((_, (point,)),) = counters.load_series(connection, 0)
    database.close()
    known = dict(zip((*GPU_COUNTERS, *GPU_GAUGES), (*point.counters, *point.gauges), strict=True))
    assert {name: value for name, value in known.items() if value is not None} == {"busy": 30, "share": 1}
