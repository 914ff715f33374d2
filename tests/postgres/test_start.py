"""What is for PostgreSQL alone is loaded where PostgreSQL is used."""

import subprocess
import sys
from pathlib import Path

import pytest

from dutycycle_alerter.store import checking
from tests.postgres.server import PostgresServer

PROGRAM = """
import sys
from dutycycle_alerter.store.reader import open_reader
open_reader(sys.argv[1]).close()
print("psycopg" in sys.modules)
"""


@pytest.mark.parametrize(("kind", "loaded"), [("sqlite", "False"), ("postgresql", "True")])
def test_psycopg_is_loaded_only_for_postgresql(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, loaded: str
) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite3'}" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    done = subprocess.run([sys.executable, "-c", PROGRAM, url], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == loaded


def test_of_a_huge_table_the_servers_estimate_is_told(
    postgres: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "MANY", 50)
    database = postgres_url.rpartition("/")[2]
    rows = "SELECT n, '', '', 0, 0, 0, 0, 0, 0, 0 FROM generate_series(1, 100) AS n"
    postgres.execute(f"INSERT INTO fleet_hour {rows}", database=database)
    postgres.execute("ANALYZE fleet_hour", database=database)
    found = {check.name: check.found for check in checking.check_store(postgres_url, None, now=0)[1]}
    assert (found["rows of fleet_hour"], found["rows of incident"]) == ("about 100", "0")
