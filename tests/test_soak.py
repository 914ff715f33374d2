"""What a full-length run leaves: its figure, or that it did not pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = """
from pathlib import Path
from benchmarks import results
from tests.soak import Soaked

def pytest_configure(config):
    config.addinivalue_line("markers", "soak: long")
    results.record.__kwdefaults__["file"] = Path({page!r})
    config.pluginmanager.register(Soaked(kept=True))
"""
TESTS = """
import pytest

@pytest.fixture
def broken():
    raise OSError("no such server")

@pytest.mark.soak
def test_many_turns(record_property):
    record_property("figure", "10,000 turns")

@pytest.mark.soak
def test_leaks():
    assert False

@pytest.mark.soak
def test_cannot_begin(broken):
    pass

def test_short():
    pass
"""


def test_every_long_test_and_none_else_leaves_a_row(tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    page.write_text("# Measured figures\n\n| a |\n")
    (tmp_path / "conftest.py").write_text(PLUGIN.format(page=str(page)))
    (tmp_path / "test_long.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    rows = [line.split(" | ") for line in page.read_text().splitlines() if "test_long.py" in line]
    assert [row[3] for row in rows] == [f"test_long.py: {name}" for name in ("many turns", "leaks", "cannot begin")]
    figures = [row[4] for row in rows]
    assert figures[0] == "10,000 turns; 0.0 min"
    assert [figure.split(" after ")[0] for figure in figures[1:]] == ["**failed**"] * 2
    assert "10,000 turns" in done.stdout
