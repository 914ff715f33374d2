"""A store of its own for each test: each runs on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import strategies as st

from dutycycle_alerter.store.database import Database, open_database

BOTH = ("sqlite", "postgresql")


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """For what only SQLite has: a file."""
    return f"sqlite:///{tmp_path / 'store.sqlite3'}"


@pytest.fixture(params=BOTH)
def url(request: pytest.FixtureRequest) -> str:
    """A store that nobody has used yet; it has its tables, because they are copied faster than made."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('made_sqlite')}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=BOTH)
def empty_url(request: pytest.FixtureRequest) -> str:
    """A database without any table."""
    name = "sqlite_url" if request.param == "sqlite" else "empty_postgres_url"
    return str(request.getfixturevalue(name))


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_database(url, time_scale=1)
    yield opened
    opened.close()


def text(longest: int) -> st.SearchStrategy[str]:
    """What is kept as it is; names that are not have tests of their own."""
    return st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=longest)


class _UndoneError(Exception):
    """Ends a transaction that is to leave nothing."""


@contextmanager
def undone(database: Database) -> Iterator[sa.Connection]:
    """A transaction that writes and is rolled back: many examples of one test share a store."""
    with suppress(_UndoneError), database.write() as connection:
        yield connection
        raise _UndoneError
