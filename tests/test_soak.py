"""What a full-length run leaves: its figure, or that it did not pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = """
from pathlib import Path
from benchmarks import results
from tests.soak import Soaked

def pytest_configure(config):
    config.addinivalue_line("markers", "soak: long")
    results.record.__kwdefaults__["file"] = results.measured.__kwdefaults__["file"] = Path({page!r})
    results.ours = lambda: "dutycycle 0123abc{changed}"
    config.pluginmanager.register(Soaked(kept=True, resumed={resumed}))
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


@pytest.fixture
def page(tmp_path: Path) -> Path:
    page = tmp_path / "RESULTS.md"
    page.write_text("# Measured figures\n\n| a |\n")
    return page


def run(page: Path, *, resumed: bool = False, changed: str = "", tests: str = TESTS) -> str:
    folder = page.parent
    (folder / "conftest.py").write_text(PLUGIN.format(page=str(page), resumed=resumed, changed=changed))
    (folder / "test_long.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120).stdout


def figures(page: Path) -> dict[str, str]:
    rows = [line.split(" | ") for line in page.read_text().splitlines() if "test_long.py" in line]
    return {row[3].removeprefix("test_long.py: "): row[4] for row in rows}


def test_every_long_test_and_none_else_leaves_a_row(page: Path) -> None:
    said = run(page)
    assert "1 failed, 2 passed, 1 error" in said, said
    found = figures(page)
    assert list(found) == ["many turns", "leaks", "cannot begin"]
    assert found["many turns"] == "10,000 turns; 0.0 min"
    assert [found[name].split(" after ")[0] for name in ("leaks", "cannot begin")] == ["**failed**"] * 2
    assert "10,000 turns" in said


KILLED = TESTS.replace("assert False", "import os; os._exit(9)")


def test_what_has_ended_is_kept_of_a_run_that_is_killed(page: Path) -> None:
    run(page, tests=KILLED)
    assert figures(page) == {"many turns": "10,000 turns; 0.0 min"}


def test_what_failed_is_shown_before_the_run_is_over(page: Path) -> None:
    fails = TESTS.replace("assert False", 'assert not "a leak"')
    said = run(page, tests=fails.replace('raise OSError("no such server")', "import os; os._exit(9)"))
    assert "assert not 'a leak'" in said, said


def test_a_run_goes_on_where_another_was_stopped(page: Path) -> None:
    run(page, tests=KILLED)
    for time in ("first", "second"):
        said = run(page, resumed=True)
        assert "1 failed, 1 passed, 1 deselected, 1 error" in said, f"what failed is run again, the {time} time, too"


@pytest.mark.parametrize("first", ["", "-dirty"])
def test_of_other_code_all_is_run_again(page: Path, first: str) -> None:
    run(page, changed=first)
    assert "1 failed, 2 passed, 1 error" in run(page, resumed=True, changed="-dirty")
