"""The one way into the database: consistent views, and transactions that write, whichever database it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from alembic.util.exc import CommandError
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.store import postgresql, schema, sqlite
from dutycycle_alerter.store.migrating import migrate
from dutycycle_alerter.store.reasons import reason_of
from dutycycle_alerter.store.url import parse_url, show_url


class Database:
    """An opened database. Safe to use from several threads; every method that writes is one transaction."""

    def __init__(self, engine: sa.Engine, name: str, time_scale: float | None) -> None:
        self._engine = engine
        self._name = name
        self._time_scale = time_scale
        self._lock = threading.Lock()
        self._made: sqlite.Place | None = None

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A consistent view: all that is read is of one moment. Raises StoreError."""
        self.make()
        engine = self._engine
        if engine.dialect.name == "postgresql":
            engine = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with translated(self._name), engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self, *, alone: bool = True) -> Iterator[sa.Connection]:
        """One transaction that commits as a whole or not at all. Raises StoreError: where the connection broke during
        the commit, nobody knows which.

        Writers wait for each other, so that what one reads to write it stays as it is. On PostgreSQL, one that is not
        `alone` does not wait for a pass that is being written, nor that for it: it must lock the rows that it needs.
        """
        self.make()
        engine = self._engine.execution_options(immediate=True, alone=alone)
        with translated(self._name), engine.begin() as connection:
            yield connection

    def make(self) -> None:
        """Make or migrate the tables, unless that was done. Raises StoreError.

        It is done anew where SQLite's file was removed: connections would go on writing into the removed one, and
        everything would be lost without an error.
        """
        with self._lock, translated(self._name):
            place = self._place()
            if self._made is not None and place == self._made:
                return
            self._made = None
            self._engine.dispose()
            migrate(self._engine, self._name)
            if self._time_scale is not None:
                _check_time_scale(self._engine, self._time_scale, self._name)
            self._made = self._place()

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def _place(self) -> sqlite.Place:
        # A server's database is where its URL says.
        return sqlite.place_of(self._engine.url) if self._engine.dialect.name == "sqlite" else (None, None)


def open_database(url: str, *, time_scale: float | None = None) -> Database:
    """Open a database, making or migrating its tables.

    A store belongs to one time scale, because its durations are wall seconds: given one, a store written at another is
    refused. Raises StoreError naming the database and the remedy.
    """
    engine, name = connect(url)
    database = Database(engine, name, time_scale)
    try:
        database.make()
    except BaseException:
        engine.dispose()
        raise
    return database


def connect(url: str) -> tuple[sa.Engine, str]:
    """An engine, and how the database may be shown; nothing is asked of it yet. Raises StoreError."""
    parsed = parse_url(url)
    name = show_url(parsed)
    kind = sqlite if parsed.get_backend_name() == "sqlite" else postgresql
    try:
        return kind.create_engine(parsed), name
    except (ArgumentError, ImportError, ValueError) as error:
        raise StoreError(f"database {name}: cannot be used: {error}") from error


def get_meta(connection: sa.Connection, key: str) -> Any:
    """A value kept under a name; None where there is none."""
    return connection.execute(sa.select(schema.meta.c.value).where(schema.meta.c.key == key)).scalar()


def set_meta(connection: sa.Connection, key: str, value: Any) -> None:
    """Keep a JSON value under a name."""
    updated = connection.execute(sa.update(schema.meta).where(schema.meta.c.key == key).values(value=value))
    if updated.rowcount == 0:
        connection.execute(sa.insert(schema.meta).values(key=key, value=value))


def forget_meta(connection: sa.Connection, key: str) -> None:
    """Keep nothing under a name."""
    connection.execute(sa.delete(schema.meta).where(schema.meta.c.key == key))


def _check_time_scale(engine: sa.Engine, time_scale: float, name: str) -> None:
    with engine.connect() as connection:
        known = get_meta(connection, "time_scale")
    if known is None:
        with engine.execution_options(immediate=True).begin() as connection:
            known = get_meta(connection, "time_scale")
            if known is None:
                set_meta(connection, "time_scale", time_scale)
                return
    if known != time_scale:
        raise StoreError(
            f"database {name}: it was written at time scale {known:g}, not {time_scale:g}; "
            "use another database, or the same time_scale"
        )


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Errors of the database within, as StoreError that names it."""
    try:
        yield
    except PoolTimeoutError as error:
        raise StoreError(f"database {name}: every connection to it is in use") from error
    except (SQLAlchemyError, CommandError, UnicodeEncodeError) as error:
        # The statement and its values may carry names of people: the driver's own message is enough.
        raise StoreError(f"database {name}: {reason_of(getattr(error, 'orig', None) or error)}") from error
