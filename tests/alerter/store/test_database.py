"""Opening a store: it belongs to one time scale, comes back where its file goes, and keeps secrets out of errors."""

import errno
import os
import sqlite3
import stat
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.store.database import Database, get_meta, open_database, set_meta
from dutycycle_alerter.store.lock import StoreLock
from dutycycle_alerter.store.reader import AT_ONCE
from tests.alerter.store.files import file_of

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
        "sqlite:///\udcff.sqlite3",
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


def test_readers_leave_connections_to_who_writes(database: Database) -> None:
    """As many more as there are couriers, passes and terms of a lease at a time; none of them waits."""
    with ExitStack() as stack:
        for _ in range(AT_ONCE + 8):
            connection = stack.enter_context(database.read())
            assert connection.execute(sa.select(1)).scalar() == 1


def files_of(directory: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()}


def test_a_new_store_is_readable_for_its_owner_only(tmp_path: Path) -> None:
    """Whatever the umask is: the store holds the key that signs links and sessions."""
    url, before = f"sqlite:///{tmp_path / 'store.sqlite3'}", os.umask(0)
    try:
        lock, database = StoreLock(url), open_database(url)
        with database.write() as connection:
            set_meta(connection, "key", 1)
            found = files_of(tmp_path)
    finally:
        os.umask(before)
    database.close()
    lock.release()
    assert found == dict.fromkeys([f"store.sqlite3{end}" for end in ("", "-wal", "-shm", ".lock")], 0o600)


def test_a_store_that_others_can_open_is_narrowed_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also the journal that a killed alerter left behind."""
    url, file = f"sqlite:///{tmp_path / 'store.sqlite3'}", tmp_path / "store.sqlite3"
    open_database(url).close()
    wal = tmp_path / "store.sqlite3-wal"
    wal.touch()
    for one, mode in ((file, 0o664), (wal, 0o644)):
        one.chmod(mode)
    open_database(url).close()
    assert files_of(tmp_path)["store.sqlite3"] == 0o600
    assert [record.message for record in caplog.records] == [
        f"{file} could be opened by other users (mode 0664): its mode is now 0600",
        f"{wal} could be opened by other users (mode 0644): its mode is now 0600",
    ]


def test_a_store_that_cannot_be_narrowed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, file = f"sqlite:///{tmp_path / 'store.sqlite3'}", tmp_path / "store.sqlite3"
    open_database(url).close()
    file.chmod(0o644)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(StoreError, match=f"chmod 600 {file}"):
        open_database(url)
