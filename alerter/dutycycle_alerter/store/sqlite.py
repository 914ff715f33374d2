"""Connections to SQLite: readers never wait, one writer at a time, and no file that is written after it was removed."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import ConnectionPoolEntry

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.store.types import to_json

log = logging.getLogger(__name__)

_LOCK_WAIT = 10.0
"""Seconds for which a writer waits for another."""

Place = tuple[int | None, int | None]


def create_engine(url: sa.URL) -> sa.Engine:
    """An engine whose connections are as they should be."""
    # As many connections as with PostgreSQL; nobody waits longer for one than for the writer's lock.
    engine = sa.create_engine(
        url, json_serializer=to_json, hide_parameters=True, pool_size=5, max_overflow=15, pool_timeout=_LOCK_WAIT
    )
    sa.event.listen(engine, "do_connect", lambda *_: keep_private(Path(str(url.database))))
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


def keep_private(file: Path) -> None:
    """Make the database readable for its owner only, whatever the umask is: it holds the key that signs links and
    sessions. Raises StoreError where that is not possible.

    SQLite gives its journals the mode of the database. Those that are there already are narrowed, too.
    """
    # Where it cannot be made SQLite itself says why.
    with suppress(OSError):
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    for one in (file, *(file.with_name(f"{file.name}-{kind}") for kind in ("wal", "shm", "journal"))):
        try:
            mode = stat.S_IMODE(one.stat().st_mode)
            if mode & 0o077:
                one.chmod(mode & 0o700)
                log.warning(
                    "%s could be opened by other users (mode %04o): its mode is now %04o", one, mode, mode & 0o700
                )
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StoreError(
                f"{one}: other users can open it, and it holds the key that signs links and sessions. Its mode could "
                f"not be changed ({error.strerror}). As its owner or root, run: chmod 600 {one}"
            ) from error


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
