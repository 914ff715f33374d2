"""The one way into the database: connections as the engine needs them, migrations, and transactions that write."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.store import schema
from dutycycle_alerter.store.url import parse_url, show_url

_Place = tuple[int | None, int | None]

MIGRATIONS = Path(__file__).with_name("migrations")


class Database:
    """An opened database. Safe to use from several threads; every method that writes is one transaction."""

    def __init__(self, engine: sa.Engine, name: str, time_scale: float | None) -> None:
        self._engine = engine
        self._name = name
        self._time_scale = time_scale
        self._lock = threading.Lock()
        self._made: _Place | None = None

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A consistent view. Raises StoreError."""
        self.make()
        with _translated(self._name), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """One transaction that commits as a whole or not at all. Raises StoreError."""
        self.make()
        with _translated(self._name), self._engine.execution_options(immediate=True).begin() as connection:
            yield connection

    def make(self) -> None:
        """Make or migrate the tables, unless that was done. Raises StoreError.

        It is done anew where SQLite's file was removed: connections would go on writing into the removed one, and
        everything would be lost without an error.
        """
        with self._lock, _translated(self._name):
            place = _place(self._engine)
            if self._made is not None and place == self._made:
                return
            self._made = None
            self._engine.dispose()
            _migrate(self._engine)
            if self._time_scale is not None:
                _check_time_scale(self._engine, self._time_scale, self._name)
            self._made = _place(self._engine)

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()


def open_database(url: str, *, time_scale: float | None = None) -> Database:
    """Open a database, making or migrating its tables.

    A store belongs to one time scale, because its durations are wall seconds: given one, a store written at another is
    refused. Raises StoreError naming the database and the remedy.
    """
    parsed = parse_url(url)
    name = show_url(parsed)
    try:
        engine = sa.create_engine(parsed)
    except (ArgumentError, ImportError, ValueError) as error:
        raise StoreError(f"database {name}: cannot be used: {error}") from error
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _configure_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    database = Database(engine, name, time_scale)
    try:
        database.make()
    except BaseException:
        engine.dispose()
        raise
    return database


def get_meta(connection: sa.Connection, key: str) -> Any:
    """A value kept under a name; None where there is none."""
    return connection.execute(sa.select(schema.meta.c.value).where(schema.meta.c.key == key)).scalar()


def set_meta(connection: sa.Connection, key: str, value: Any) -> None:
    """Keep a JSON value under a name."""
    updated = connection.execute(sa.update(schema.meta).where(schema.meta.c.key == key).values(value=value))
    if updated.rowcount == 0:
        connection.execute(sa.insert(schema.meta).values(key=key, value=value))


def _configure_sqlite(connection: Any, _record: ConnectionPoolEntry) -> None:
    # Transactions are begun by us (below), not by the driver at the first write.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "busy_timeout=10000",
        "synchronous=NORMAL",  # a killed process loses nothing; a power cut may lose the last transactions
        "foreign_keys=ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    # Readers (page, command line) never wait for the writer. Only changing the mode can fail for a lock, which is not
    # waited for: then another process is just changing it, and it holds for every connection.
    with suppress(sqlite3.OperationalError):
        cursor.execute("PRAGMA journal_mode=WAL")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    # A transaction that will write takes the lock at once: one that reads first and then writes could not wait for it.
    immediate = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _migrate(engine: sa.Engine) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with engine.connect() as connection:
        revision = MigrationContext.configure(connection).get_current_revision()
    if revision == ScriptDirectory.from_config(config).get_current_head():
        return  # who only looks need not wait for a writer
    with engine.execution_options(immediate=True).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _check_time_scale(engine: sa.Engine, time_scale: float, name: str) -> None:
    with engine.execution_options(immediate=True).begin() as connection:
        known = get_meta(connection, "time_scale")
        if known is None:
            set_meta(connection, "time_scale", time_scale)
        elif known != time_scale:
            raise StoreError(
                f"database {name}: it was written at time scale {known:g}, not {time_scale:g}; "
                "use another database, or the same time_scale"
            )


def _place(engine: sa.Engine) -> _Place:
    """Which file a SQLite database is in now; always the same for a database that is no file."""
    if engine.dialect.name != "sqlite" or engine.url.database is None:
        return None, None
    try:
        status = Path(engine.url.database).stat()
    except OSError:
        return None, None
    return status.st_dev, status.st_ino


@contextmanager
def _translated(name: str) -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, CommandError, UnicodeEncodeError) as error:
        # The statement and its values may carry names of people: the driver's own message is enough.
        reason = getattr(error, "orig", None) or error
        raise StoreError(f"database {name}: {reason}") from error
