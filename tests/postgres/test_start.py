"""What is for PostgreSQL alone is loaded where PostgreSQL is used."""

import subprocess
import sys
from pathlib import Path

import pytest

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
