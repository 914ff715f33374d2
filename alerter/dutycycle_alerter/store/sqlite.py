"""Connections to SQLite: readers never wait, one writer at a time, and no file that is written after it was removed."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import ConnectionPoolEntry

from dutycycle_alerter.store.types import to_json

_LOCK_WAIT = 10.0
"""Seconds for which a writer waits for another."""

Place = tuple[int | None, int | None]


def create_engine(url: sa.URL) -> sa.Engine:
    """An engine whose connections are as they should be."""
    # As many connections as with PostgreSQL; nobody waits longer for one than for the writer's lock.
    engine = sa.create_engine(
        url, json_serializer=to_json, hide_parameters=True, pool_size=5, max_overflow=15, pool_timeout=_LOCK_WAIT
    )
    sa.event.listen(engine, "connect", _configure)
    sa.event.listen(engine, "begin", _begin)
    return engine


def place_of(url: sa.URL) -> Place:
    """Which file the database is in now."""
    try:
        status = Path(str(url.database)).stat()
    except OSError:
        return None, None
    return status.st_dev, status.st_ino


def _configure(connection: Any, _record: ConnectionPoolEntry) -> None:
    # Transactions are begun by us (below), not by the driver at the first write.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout={_LOCK_WAIT * 1000:.0f}",
        "synchronous=NORMAL",  # a killed process loses nothing; a power cut may lose the last transactions
        "foreign_keys=ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    # Readers (page, command line) never wait for the writer. Only changing the mode can fail for a lock, which is not
    # waited for: then another process is just changing it, and it holds for every connection.
    with suppress(sqlite3.OperationalError):
        cursor.execute("PRAGMA journal_mode=WAL")
    cursor.close()


def _begin(connection: sa.Connection) -> None:
    # A transaction that will write takes the lock at once: one that reads first and then writes could not wait for it.
    immediate = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
