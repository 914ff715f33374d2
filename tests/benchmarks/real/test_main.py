"""The command that plays recorded runs: how it ends, which figures it keeps, and whose those are."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import results
from benchmarks.box.pace import Pace
from benchmarks.box.played import NOT_ALL
from benchmarks.exits import NOT_HERE, UNTOLD
from benchmarks.real import __main__ as program
from benchmarks.real.analyzed import Analyzed
from benchmarks.real.chain import Chain
from benchmarks.real.comparison import Seen, Usage, users_by_bin
from benchmarks.real.runs import Recorded, Row, Run, Track


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


ROWS = tuple(Row(30.0 * n, 0.0, None, None, None, None) for n in range(1, 9))
RUNS = tuple(Run(name, "ada", name, (Track("0", "T4", 30.0, ROWS),)) for name in ("a", "b"))
USERS = {"ada": Usage(480.0, 0.0)}
IDLE = {"a": (Seen("idle", 2400.0),)}
CHAIN = Chain(IDLE, USERS, {}, users_by_bin(USERS), (480.0 / 3600, *[0.0] * 19), 240.0)
LATE = Pace(passes_made=0.5)


@dataclass
class Reported:
    """What came to be reported: rows, whether they are kept, whose machine."""

    rows: list[results.Row] = field(default_factory=list)
    are_kept: bool = False
    machine: str = ""

    def __call__(
        self, rows: list[results.Row], options: argparse.Namespace, *, section: str, machine: str = ""
    ) -> None:
        assert section == "Real runs"
        self.rows, self.are_kept, self.machine = rows, not (options.quick or options.no_record), machine


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Reported:
    found = Reported()
    monkeypatch.setattr(results, "report", found)
    return found


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """The command with a chain that is given in place of a site; its exit status. What it leaves is in tmp_path."""
    monkeypatch.setattr(program, "_lacking", lambda _: "")
    monkeypatch.setattr(program, "read", lambda _: Recorded(RUNS, {}))
    monkeypatch.setattr(program, "analyze", lambda *_, **__: Analyzed(IDLE, USERS, users_by_bin(USERS), 480.0))
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def run(chain: Chain | None, *arguments: str) -> int:
        def play(*_: object, **__: object) -> Chain:
            assert chain is not None, "nothing was to be played"
            return chain

        monkeypatch.setattr(program, "play", play)
        monkeypatch.setattr(sys, "argv", ["real", "--keep", str(tmp_path), *arguments])
        monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "benchmarks.real", *sys.argv[1:]])
        return program.main()

    return run


@pytest.mark.parametrize(
    ("changes", "status", "are_kept"),
    [
        ({}, 0, True),
        ({"incidents": {}}, 1, True),
        ({"ledger": {"ada": Usage(480.0, 240.0)}}, 1, True),
        ({"failed": 2}, 1, True),
        ({"pace": LATE}, NOT_HERE, False),
        ({"pace": LATE, "incidents": {}}, NOT_HERE, False),
        ({"trouble": ("crowd-1: job 7: KeyError()",)}, UNTOLD, False),
        ({"trouble": ("Prometheus has 2 of 3 nodes",), "pace": LATE}, UNTOLD, False),
        ({"failed": 2, "pace": LATE}, 1, False),
        ({"failed": 2, "trouble": (NOT_ALL,)}, 1, False),
    ],
)
def test_only_a_slow_machine_is_excused(
    changes: Mapping[str, Any], status: int, are_kept: bool, command: Callable[..., int], reported: Reported
) -> None:
    assert command(replace(CHAIN, **changes)) == status
    assert reported.are_kept == are_kept


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"failed": 2}, "2 passes of the alerter failed"),
        ({"trouble": (NOT_ALL,)}, f"nothing can be told, as the harness had trouble: {NOT_ALL}"),
        ({"pace": LATE}, "the machine did not keep pace, these figures are its own: 50% of the passes were made"),
    ],
)
def test_it_says_why_a_run_does_not_count(
    changes: Mapping[str, Any],
    said: str,
    command: Callable[..., int],
    reported: Reported,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command(replace(CHAIN, **changes))
    assert said in capsys.readouterr().err


def _is(monkeypatch: pytest.MonkeyPatch, commit: str, day: str, machine: str) -> None:
    """From now on here."""
    monkeypatch.setattr(results, "ours", lambda: f"dutycycle {commit}")
    monkeypatch.setattr(results, "today", lambda: day)
    monkeypatch.setattr(results, "describe_machine", lambda: machine)
    monkeypatch.setattr(results, "versions", lambda *_: f"sqlalchemy of {day}")


def test_what_is_shown_again_is_of_the_day_the_machine_and_the_commit_that_played_it(
    command: Callable[..., int], reported: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    _is(monkeypatch, "1111111", "2031-01-02", "a big one")
    assert command(CHAIN, "--time-scale", "30") == 0
    assert {row.ours for row in reported.rows} == {"dutycycle 1111111"}
    _is(monkeypatch, "2222222", "2032-01-01", "a small one")
    assert command(None, "--show") == 0
    assert reported.are_kept
    assert reported.machine == "a big one"
    assert {(row.day, row.ours, row.by) for row in reported.rows} == {
        ("2031-01-02", "dutycycle 1111111, analyzed by 2222222", "`python -m benchmarks.real --time-scale 30`")
    }
    assert all(row.versions.endswith("sqlalchemy of 2031-01-02") for row in reported.rows)


def test_what_is_shown_again_ends_as_it_did(command: Callable[..., int], reported: Reported) -> None:
    command(replace(CHAIN, trouble=(NOT_ALL,)))
    assert command(None, "--show") == UNTOLD
    assert not reported.are_kept


def test_another_selection_of_runs_is_not_shown(
    command: Callable[..., int], reported: Reported, capsys: pytest.CaptureFixture[str]
) -> None:
    command(CHAIN, "--run", "a")
    reported.rows = []
    assert command(None, "--show") == 2
    assert reported.rows == []
    assert "another selection of runs, by `python -m benchmarks.real --run a`: 1 of those" in capsys.readouterr().err
    assert command(None, "--show", "--run", "a") == 0
    assert reported.rows


def test_a_quick_run_is_shown_and_not_kept_whoever_shows_it(command: Callable[..., int], reported: Reported) -> None:
    command(CHAIN, "--quick", "--run", "a", "--run", "b")
    assert command(None, "--show") == 0
    assert not reported.are_kept


@pytest.mark.parametrize("left", [None, b"{}", b"\xff"])
def test_what_cannot_be_shown_is_refused(
    left: bytes | None, command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if left is not None:
        (tmp_path / "chain.json").write_bytes(left)
    assert command(None, "--show") == 2
    assert f"{tmp_path / 'chain.json'}" in capsys.readouterr().err
