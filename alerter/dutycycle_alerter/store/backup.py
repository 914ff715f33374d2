"""A copy of a SQLite store, also while an alerter writes to it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from dutycycle_alerter.errors import ConfigError, StoreError
from dutycycle_alerter.store.database import connect
from dutycycle_alerter.store.reasons import reason_of


def back_up(url: str, target: Path) -> int:
    """Copy the store as it is at one moment into a file that is not there yet, and that only its owner may read: the
    store holds the key of links and sessions. Returns its bytes.

    The copy is complete, or not there; after a kill its file is empty. Raises ConfigError for another database, a store
    that does not exist, and a file that does; StoreError where it cannot be copied.
    """
    engine, name = connect(url)
    if engine.dialect.name != "sqlite":
        raise ConfigError(f"database {name}: only SQLite is copied so; of PostgreSQL make a copy with `pg_dump`")
    source = Path(str(engine.url.database))
    if not source.exists():
        raise ConfigError(f"database {name}: there is no such file")
    try:
        # Taken at once, so that nothing that comes meanwhile is replaced.
        target.touch(0o600, exist_ok=False)
    except FileExistsError as error:
        raise ConfigError(f"{target}: is there already; name another file, or move it away") from error
    except OSError as error:
        raise _failed(name, target, error) from error
    part = target.with_name(f".{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        part.touch(0o600)
        # In one step: in several, each write of an alerter would make it begin anew.
        with closing(_opened(source)) as store, closing(sqlite3.connect(part)) as copy:
            store.backup(copy)
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(target)
    except BaseException as error:
        for file in (part, target):
            file.unlink(missing_ok=True)
        if isinstance(error, OSError | sqlite3.Error):
            raise _failed(name, target, error) from error
        raise
    return target.stat().st_size


def _failed(name: str, target: Path, error: Exception) -> StoreError:
    return StoreError(f"database {name}: cannot be copied to {target}: {reason_of(error)}")


def _opened(file: Path) -> sqlite3.Connection:
    """For reading, so that none is made where it went away meanwhile."""
    return sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True)
