"""Brings a database's tables to what this version needs: once, whoever else does the same at that moment."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import DBAPIError

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.store import postgresql

_TRIES, _PAUSE = 20, 1.0
"""How often a migration is tried where a table is in use, and the seconds between two."""

MIGRATIONS = Path(__file__).with_name("migrations")


def migrate(engine: sa.Engine, name: str) -> None:
    """All of it or nothing, in one transaction. Raises StoreError where the database is of a newer version."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            postgresql.check_server(connection, name)
        revision = revision_of(connection)
    _refuse_newer(revision, name)
    if revision == head():
        return  # who only looks need not wait for a writer
    for left in reversed(range(_TRIES)):
        try:
            _upgrade(engine, name)
        except DBAPIError as error:
            # Whoever uses a table (a long read, a backup) has it for a while; meanwhile others go on.
            if not left or not postgresql.is_in_use(error):
                raise
            time.sleep(_PAUSE)
        else:
            return


def _upgrade(engine: sa.Engine, name: str) -> None:
    with engine.execution_options(immediate=True, alone=False).begin() as connection:
        if engine.dialect.name == "postgresql":
            postgresql.lock_to_migrate(connection)
        # Somebody else may have done it meanwhile, and may be of a newer version.
        _refuse_newer(revision_of(connection), name)
        config = configuration()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def configuration() -> Config:
    """Alembic's, for the migrations beside this module."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def revision_of(connection: sa.Connection) -> str | None:
    """The version of a database's tables; None where there are none."""
    return MigrationContext.configure(connection).get_current_revision()


def head() -> str:
    """The version that this program needs."""
    return revisions()[0]


@cache
def revisions() -> tuple[str, ...]:
    """Every version that this program knows, newest first."""
    return tuple(script.revision for script in ScriptDirectory.from_config(configuration()).walk_revisions())


def _refuse_newer(revision: str | None, name: str) -> None:
    if revision is not None and revision not in revisions():
        raise StoreError(
            f"database {name}: a newer version of Dutycycle made it (its tables are of revision {revision}, this "
            f"version knows none after {head()}): run that version, or use another database"
        )
