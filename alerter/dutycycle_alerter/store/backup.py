"""A copy of a SQLite store, also while an alerter writes to it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from dutycycle_alerter.errors import ConfigError, StoreError
from dutycycle_alerter.store.database import connect
from dutycycle_alerter.store.reasons import reason_of


def back_up(url: str, target: Path) -> int:
    """Copy the store as it is at one moment into a file that is not there yet, and that only its owner may read: the
    store holds the key of links and sessions. Returns its bytes.

    The copy is complete or not there. Raises ConfigError for another database, a store that does not exist, and a file
    that does; StoreError where it cannot be copied.
    """
    engine, name = connect(url)
    if engine.dialect.name != "sqlite":
        raise ConfigError(f"database {name}: only SQLite is copied so; of PostgreSQL make a copy with `pg_dump`")
    source = Path(str(engine.url.database))
    if not source.exists():
        raise ConfigError(f"database {name}: there is no such file")
    if target.exists():
        raise ConfigError(f"{target}: is there already; name another file, or move it away")
    part = target.with_name(f"{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        # In one step: in several, each write of an alerter would make it begin anew.
        with closing(_opened(source)) as store, closing(sqlite3.connect(part)) as copy:
            store.backup(copy)
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.rename(target)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"database {name}: cannot be copied to {target}: {reason_of(error)}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return target.stat().st_size


def _opened(file: Path) -> sqlite3.Connection:
    """For reading, so that none is made where it went away meanwhile."""
    return sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True)
