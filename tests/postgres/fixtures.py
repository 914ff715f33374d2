"""One PostgreSQL per test process, and databases in it; `tests/conftest.py` offers them to every test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle_alerter.store import postgresql
from dutycycle_alerter.store.database import open_database
from tests.postgres.server import PostgresServer

_MEMORY = Path("/dev/shm")
_ROOM = 2**30
"""Bytes that have to be free there; a server whose log is kept short takes a few hundred million."""


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server that runs from its first use to the end; a test that breaks one starts its own.

    In memory where there is room: to make and delete hundreds of files for each test took longer than the tests.
    """
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM
    with (
        PostgresServer(settings=["max_wal_size=128MB"], place=_MEMORY if roomy else None) as server,
        pytest.MonkeyPatch.context() as patched,
    ):
        # On a busy machine it may take long to begin a connection.
        patched.setitem(postgresql._OPTIONS, "connect_timeout", 60)
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres: PostgresServer) -> str:
    """The name of a database with every table and nothing in them, to be copied: `postgres.create(template=...)`."""
    name = postgres.create()
    open_database(postgres.url(name)).close()
    return name


@pytest.fixture
def empty_postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """A database of the test's own without any table."""
    name = postgres.create()
    yield postgres.url(name)
    postgres.drop(name)


@pytest.fixture
def postgres_url(postgres: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A store of the test's own: every table, and nothing in them."""
    name = postgres.create(template=postgres_template)
    yield postgres.url(name)
    postgres.drop(name)
