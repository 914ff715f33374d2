"""A store of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle_alerter.store.database import Database, open_database


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.sqlite3'}"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_database(url, time_scale=1)
    yield opened
    opened.close()
