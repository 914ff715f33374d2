"""The command that plays recorded runs."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from benchmarks.real import __main__ as program


def test_programs_are_started_in_a_place_that_is_the_same_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run in directories of their own, where a path that a person wrote beside this one leads nowhere."""
    directories = []

    def run(_: object, directory: Path) -> int:
        directories.append(directory)
        return 0

    monkeypatch.setattr(program, "_lacking", lambda _: "")
    monkeypatch.setattr(program, "_run", run)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["real", "--keep", "kept"])
    monkeypatch.chdir(tmp_path)
    assert program.main() == 0
    assert directories == [tmp_path.resolve() / "kept"]
