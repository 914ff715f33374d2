"""Connections to PostgreSQL: never waited for without end, one writer at a time, errors without people's names.

Whoever writes holds one lock of the store from the beginning of the transaction to its end, as SQLite's writers do:
what is read to be written cannot change between, whichever replica does it. A writer that stops while it holds the
lock is ended by the server, and what it wrote is undone.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.store.types import to_json

LOCK_WAIT = 10.0
"""Seconds for which a writer waits for another, as with SQLite."""

READ_LIMIT, WRITE_LIMIT = 15.0, 30.0
"""Seconds that one statement may take, by what its transaction is for."""

MIGRATION_WAIT = 3.0
"""Seconds for which a migration waits for a table that somebody uses, before it tries again."""

RESTORE_LIMIT = 600.0
"""Those of a statement of a term that begins with what the store kept."""

IDLE_LIMIT = 30.0
"""Seconds after which the server ends a transaction in which nothing is asked: its process is stopped or lost."""

_ANSWER_LIMIT = 5.0
"""Seconds beyond those limits until a server that says nothing at all is given up."""

OLDEST = 130_000
"""The oldest version of the server that is served, as it writes versions."""

WRITERS = 0x64_75_74_79_63_79_63_6C
"""The lock's number: "dutycycl"."""

MIGRATING = "dutycycle migration"
"""What a session calls itself that changes the tables: it may be silent for long, and must not be ended."""

_ALONE = f"SELECT pg_advisory_xact_lock({WRITERS})"

_OPTIONS: dict[str, str | int] = {
    "application_name": "dutycycle",
    "connect_timeout": 4,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_NO_LOCK = "55P03"
_RECYCLED_AFTER = 1800


def create_engine(url: sa.URL) -> sa.Engine:
    """An engine whose connections are as they should be. What the URL's query says goes before."""
    from dutycycle_alerter.store import patient  # noqa: PLC0415 - psycopg takes half a second to import, and 10 MB

    chosen = {name: value for name, value in _OPTIONS.items() if name not in url.query}
    engine = sa.create_engine(
        url,
        # Nothing is prepared: behind a pooler, the next transaction may meet another session of the server.
        connect_args={**chosen, "client_encoding": "utf8", "prepare_threshold": None},
        # Whatever the server's default is: a writer must see what the one before it has written.
        isolation_level="READ COMMITTED",
        json_serializer=to_json,
        hide_parameters=True,
        pool_size=5,
        max_overflow=15,
        pool_timeout=LOCK_WAIT,
        pool_recycle=_RECYCLED_AFTER,
        pool_use_lifo=True,
    )
    sa.event.listen(engine, "do_connect", patient.connect)
    sa.event.listen(engine, "checkout", patient.check)
    sa.event.listen(engine, "begin", _begin)
    return engine


def check_server(connection: sa.Connection, name: str) -> None:
    """Raises StoreError where the server is too old, or the database cannot hold every name there is."""
    version = int(connection.exec_driver_sql("SHOW server_version_num").scalar_one())
    if version < OLDEST:
        raise StoreError(
            f"database {name}: PostgreSQL {version // 10_000} is too old: {OLDEST // 10_000} or newer is needed"
        )
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        raise StoreError(
            f"database {name}: its encoding is {encoding}: make another with CREATE DATABASE ... ENCODING 'UTF8' "
            "TEMPLATE template0"
        )


def lock_to_migrate(connection: sa.Connection) -> None:
    """Alone with the tables until the transaction's end: writers are waited for without end, and a table that somebody
    uses for no longer than `MIGRATION_WAIT`, since whoever comes after would wait behind us.
    """
    _wait_for_answers(connection, None)
    connection.exec_driver_sql("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
    connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
    connection.exec_driver_sql(f"SET LOCAL application_name = '{MIGRATING}'")
    connection.exec_driver_sql(_ALONE)
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {1000 * MIGRATION_WAIT:.0f}")


def is_in_use(error: DBAPIError) -> bool:
    """Whether a lock was not had in time."""
    return getattr(error.orig, "sqlstate", None) == _NO_LOCK


def take_time(connection: sa.Connection) -> None:
    """Let this transaction read for longer than a page may: a day of counters, say. Of SQLite nothing is limited."""
    if connection.dialect.name == "postgresql":
        _wait_for_answers(connection, RESTORE_LIMIT + _ANSWER_LIMIT)
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {1000 * RESTORE_LIMIT:.0f}")


def _begin(connection: sa.Connection) -> None:
    options = connection.get_execution_options()
    writes, alone = options.get("immediate", False), options.get("alone", True)
    limit = WRITE_LIMIT if writes else READ_LIMIT
    _wait_for_answers(connection, limit + _ANSWER_LIMIT)
    # Of the transaction, not of the session: so they hold behind a pooler, too.
    limits = {
        "statement_timeout": max(limit, LOCK_WAIT),
        "lock_timeout": LOCK_WAIT,
        "idle_in_transaction_session_timeout": IDLE_LIMIT,
    }
    values = ", ".join(f"set_config('{name}', '{1000 * seconds:.0f}', true)" for name, seconds in limits.items())
    connection.exec_driver_sql(f"SELECT {values}")
    if writes and alone:
        connection.exec_driver_sql(_ALONE)


def _wait_for_answers(connection: sa.Connection, seconds: float | None) -> None:
    raw = connection.connection.driver_connection
    assert raw is not None  # noqa: S101 - it is just in use
    raw.patience = seconds
