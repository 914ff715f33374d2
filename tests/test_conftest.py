"""What the fixtures' own file does to every test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = "from tests.conftest import pytest_runtest_makereport\n"
TESTS = """
import ast

def parse(frames):
    \"\"\"It ends the outer one unless it begins just as deep in the stack as that stands in its tree.\"\"\"
    return parse(frames - 1) if frames else ast.parse("a + b * (c - d)")

class Parses:
    \"\"\"Each collection of garbage finds one.\"\"\"

    def __init__(self, frames=0):
        self.itself, self.frames = self, frames

    def __del__(self):
        parse(self.frames)
        Parses((self.frames + 1) % 5)

def test_fails_beside_garbage():
    Parses()
    assert False

CODE = [
    "Enough for a collection to begin while it is parsed.",
    LINES
]
"""


def test_a_report_is_made_whatever_garbage_there_is(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_garbage.py").write_text(TESTS.replace("LINES", "\n".join(["    (1, 2, 3 + 4),"] * 3000)))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path)]
    # Other plugins parse source, too, outside of reports.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*command, str(tmp_path)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert "1 failed" in done.stdout, done.stdout[-2000:] + done.stderr
    assert "INTERNALERROR" not in done.stdout
