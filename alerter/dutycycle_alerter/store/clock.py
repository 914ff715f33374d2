"""The database's clock: the one that alerters who share a database agree on, whatever their own ones show.

SQLite's is the machine's, which is also ours.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from dutycycle_alerter.elapsed import elapsed
from dutycycle_alerter.store.transactions import Transactions


class database_time(FunctionElement[float]):  # noqa: N801 - it is written like an SQL function
    """Unix seconds at the moment at which the database computes it, not those at which its transaction began."""

    type = sa.Float()
    inherit_cache = True


@compiles(database_time, "postgresql")
def _postgresql(_element: database_time, _compiler: Any, **_: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


@compiles(database_time, "sqlite")
def _sqlite(_element: database_time, _compiler: Any, **_: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


class DatabaseClock:
    """Tells the database's time without asking it each time. Thread-safe.

    It is a clock of ours that nobody sets, and an offset. Each answer of the database bounds the offset: its time was
    told after the question was sent, and before the answer was there. The offset moves only as far as these bounds
    want it to, so that time goes back only where the database's does (then by no more than it must). As long as both
    run at one speed it is never ahead of the database's: of two alerters, the one that takes over never sees an earlier
    time than the other has written.
    """

    def __init__(self, database: Transactions, monotonic: Callable[[], float] = elapsed) -> None:
        self._database = database
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._offset: float | None = None

    def __call__(self) -> float:
        """Unix seconds. Raises StoreError where the database never told its time."""
        if self._offset is None:
            self.measure()
        assert self._offset is not None  # noqa: S101 - it has just been measured
        return self._monotonic() + self._offset

    def measure(self) -> None:
        """Ask the database. Raises StoreError."""
        with self._database.read() as connection:
            self.tell(connection, sa.select(database_time()))

    def tell(self, connection: sa.Connection, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Any:
        """Run a statement whose row ends with the database's time, and learn from it. Returns the row, or None."""
        before = self._monotonic()
        row = connection.execute(statement, values).first()
        after = self._monotonic()
        if row is not None:
            self._learn(float(row[-1]), before, after)
        return row

    def _learn(self, told: float, before: float, after: float) -> None:
        earliest, latest = told - after, told - before
        with self._lock:
            self._offset = earliest if self._offset is None else min(max(self._offset, earliest), latest)


def clock_of(database: Transactions, local: Callable[[], float] = time.time) -> Callable[[], float]:
    """The clock by which a database's users agree: its own where it is a server, else `local`. Raises StoreError."""
    with database.read() as connection:
        shared = connection.dialect.name != "sqlite"
    return DatabaseClock(database) if shared else local
