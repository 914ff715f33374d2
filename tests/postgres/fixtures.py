"""One PostgreSQL per test process, and databases in it; `tests/conftest.py` offers them to every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dutycycle_alerter.store.database import open_database
from tests.postgres.server import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server that runs from its first use to the end; a test that breaks one starts its own."""
    with PostgresServer() as server:
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
