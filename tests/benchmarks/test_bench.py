"""`make bench`: what it says of programs that end in each way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.exits import NOT_HERE

ROOT = Path(__file__).resolve().parents[2]


def bench(directory: Path, *codes: int) -> subprocess.CompletedProcess[str]:
    """With programs `ends.CODE`, which do nothing but end so."""
    python = directory / "python"
    python.write_text('#!/bin/sh\nexit "${2#ends.}"\n')
    python.chmod(0o755)
    programs = " ".join(f"ends.{code}" for code in codes)
    command = ["make", "--assume-old=.venv/.test", "bench", f"BIN={directory}", f"BENCHMARKS={programs}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def test_what_cannot_run_here_is_named_and_no_failure(tmp_path: Path) -> None:
    done = bench(tmp_path, 0, NOT_HERE, 0)
    assert done.returncode == 0, done.stderr
    assert f"not measured, as this machine does not let them: ends.{NOT_HERE}\n" in done.stdout


@pytest.mark.parametrize("code", [1, 2, 3, 139])
def test_whatever_else_ends_badly_fails_after_the_others(tmp_path: Path, code: int) -> None:
    done = bench(tmp_path, code, 0)
    assert done.returncode != 0
    assert "== ends.0" in done.stdout
    assert "not measured" not in done.stdout
    assert f"failed or fell short: ends.{code}({code})" in done.stderr
