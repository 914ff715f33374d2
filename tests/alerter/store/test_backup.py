"""`dutycycle db backup`: a copy is whole or not there, and nothing that exists is written over."""

from __future__ import annotations

import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

from click.testing import CliRunner, Result

from dutycycle_alerter.cli.db import db
from dutycycle_alerter.errors import ConfigError, StoreError
from dutycycle_alerter.store.database import get_meta, open_database, set_meta


def back_up(url: str, file: Path) -> Result:
    return CliRunner().invoke(db, ["backup", str(file), "--database", url])


def counts(url: str) -> tuple[object, object]:
    opened = open_database(url)
    try:
        with opened.read() as connection:
            return get_meta(connection, "left"), get_meta(connection, "right")
    finally:
        opened.close()


def test_a_store_is_copied_while_it_is_written(sqlite_url: str, tmp_path: Path) -> None:
    """Nothing of a transaction is in the copy, or all of it."""
    database = open_database(sqlite_url)
    written, done = threading.Event(), threading.Event()

    def write() -> None:
        for number in range(1_000_000):
            if done.is_set():
                return
            with database.write() as connection:
                set_meta(connection, "left", number)
                set_meta(connection, "right", number)
            written.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.wait(30)
        copies = [tmp_path / f"{number}.sqlite3" for number in range(5)]
        results = [back_up(sqlite_url, copy) for copy in copies]
    finally:
        done.set()
        writer.join()
        database.close()
    assert [result.exit_code for result in results] == [0] * 5
    assert all(stat.S_IMODE(copy.stat().st_mode) == 0o600 for copy in copies)
    for copy in copies:
        left, right = counts(f"sqlite:///{copy}")
        assert left == right is not None


def test_nothing_is_written_over(sqlite_url: str, tmp_path: Path) -> None:
    open_database(sqlite_url).close()
    there = tmp_path / "there"
    there.write_text("another's")
    result = back_up(sqlite_url, there)
    assert isinstance(result.exception, ConfigError)
    assert "is there already" in str(result.exception)
    assert there.read_text() == "another's"


def test_a_store_that_is_not_there_is_not_made(sqlite_url: str, tmp_path: Path) -> None:
    assert isinstance(back_up(sqlite_url, tmp_path / "copy").exception, ConfigError)
    assert list(tmp_path.iterdir()) == []


def test_of_postgresql_it_says_what_copies_it(postgres_url: str, tmp_path: Path) -> None:
    result = back_up(postgres_url, tmp_path / "copy")
    assert isinstance(result.exception, ConfigError)
    assert "pg_dump" in str(result.exception)


def test_of_a_copy_that_failed_nothing_is_left(sqlite_url: str, tmp_path: Path) -> None:
    """A store that is damaged is found while it is read, in the midst of the copy."""
    open_database(sqlite_url).close()
    store = Path(sqlite_url.removeprefix("sqlite:///"))
    with store.open("r+b") as opened:
        opened.write(b"no database at all")
    before = sorted(tmp_path.iterdir())
    result = back_up(sqlite_url, tmp_path / "copy")
    assert isinstance(result.exception, StoreError)
    assert "cannot be copied" in str(result.exception)
    assert sorted(tmp_path.iterdir()) == before


def test_where_the_copy_cannot_be_written_the_error_says_why(sqlite_url: str, tmp_path: Path) -> None:
    open_database(sqlite_url).close()
    result = back_up(sqlite_url, tmp_path / "nowhere" / "copy")
    assert isinstance(result.exception, StoreError)
    assert "No such file or directory" in str(result.exception)


def test_a_copy_is_a_store(sqlite_url: str, tmp_path: Path) -> None:
    open_database(sqlite_url).close()
    assert back_up(sqlite_url, tmp_path / "copy").exit_code == 0
    with closing(sqlite3.connect(tmp_path / "copy")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    result = CliRunner().invoke(db, ["check", "--database", f"sqlite:///{tmp_path / 'copy'}"])
    assert result.exit_code == 0
