"""Transactions of a store: kept whole or not at all, seen whole, and without lost updates."""

import sqlite3
import subprocess
import sys
from contextlib import ExitStack

import pytest
import sqlalchemy as sa

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.store.database import Database, get_meta, open_database, set_meta
from dutycycle_alerter.store.schema import metadata
from tests.alerter.store.files import file_of


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
