"""A connection of psycopg that is never waited for without end. Imported only where PostgreSQL is used."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg.pq import TransactionStatus
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from dutycycle_alerter.store.reasons import reason_of

THERE_LIMIT = 3.0
"""Seconds until a connection that was not used for a while counts as lost: with those of the next one less than a
scraper of the alerter's own metrics waits.
"""

_Result = TypeVar("_Result")


class PatientConnection(psycopg.Connection[Any]):
    """Gives a server up that does not answer within `patience` seconds; None waits without end.

    The server's own limits do not help where it is stopped, or where its machine is gone without a word.
    """

    patience: float | None = THERE_LIMIT

    def wait(self, gen: Generator[Any, Any, _Result], *arguments: Any, **options: Any) -> _Result:
        """Run one exchange with the server."""
        return super().wait(self._limited(gen), *arguments, **options)

    def _limited(self, gen: Generator[Any, Any, _Result]) -> Generator[Any, Any, _Result]:
        began = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                # Nothing is ready ten times a second while the server is silent.
                ready = yield wanted
                if not ready and self.patience is not None and time.monotonic() - began > self.patience:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the server does not answer within {self.patience:g} s")
                wanted = gen.send(ready)
        except StopIteration as finished:
            result: _Result = finished.value
            return result


def connect(_dialect: sa.Dialect, _record: ConnectionPoolEntry, arguments: list[Any], options: dict[str, Any]) -> Any:
    """For SQLAlchemy's event of that name."""
    return PatientConnection.connect(*arguments, **options)


def check(connection: PatientConnection, _record: ConnectionPoolEntry, _proxy: object) -> None:
    """See that a connection of the pool still is one: SQLAlchemy's own pre-ping would wait for a server that is
    stopped. Raises DisconnectionError, upon which another is made.
    """
    connection.patience = THERE_LIMIT
    try:
        connection.execute("")
        if connection.info.transaction_status != TransactionStatus.IDLE:
            connection.rollback()
    except psycopg.Error as error:
        raise DisconnectionError(reason_of(error)) from error
