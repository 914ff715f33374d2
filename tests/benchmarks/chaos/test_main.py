"""A run from the command line to its row, with what was played given: what is kept, what it prints, how it ends."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.chaos import __main__ as program
from benchmarks.chaos.record import Record

from .evidence import clean


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Runs it on a record, of which the logs are written where a site writes them; returns the exit status."""
    own = tmp_path / "run"
    monkeypatch.setattr(program, "missing", list)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: str(own))

    def with_record(record: Record, *arguments: str) -> int:
        own.mkdir()
        log = own / "alerter-a.log"
        log.write_text("well\n")
        monkeypatch.setattr(program, "play", lambda *_: replace(record, logs=(log,)))
        monkeypatch.setattr(sys, "argv", ["chaos", "--no-record", *arguments])
        return program.main()

    return with_record


def test_a_run_without_violations_ends_with_0_and_leaves_nothing(run, tmp_path: Path, capsys) -> None:
    assert run(clean()) == 0
    assert not (tmp_path / "run").exists()
    assert "0 violations of" in capsys.readouterr().out


def test_a_run_with_a_violation_ends_with_1_and_its_evidence_is_kept_and_can_be_judged_again(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(replace(clean(), notices=()), "--keep", str(tmp_path / "kept")) == 1
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(sys, "argv", ["chaos", "--judge", str(tmp_path / "kept")])
    assert program.main() == 1


def test_a_fault_that_did_nothing_is_named(run, capsys) -> None:
    lame = replace(clean().faults[0], took=False)
    assert run(replace(clean(), faults=(lame, *clean().faults[1:]))) == 0
    assert "did not take: exporter-killed" in " ".join(capsys.readouterr().out.split())
