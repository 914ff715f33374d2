"""Outcomes that are kept: which seeds are played, and which of them make a figure together."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import results
from benchmarks.box import __main__ as command
from benchmarks.box import played
from benchmarks.box.model import Observed, Scenario
from benchmarks.box.pace import Pace
from benchmarks.box.played import code


@dataclass
class Playing:
    """Stands for the whole site: what each seed's pace was, and which were played."""

    late: dict[int, float] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)
    directories: list[Path] = field(default_factory=list)

    def __call__(self, scenario: Scenario, *, directory: Path, **_: object) -> Observed:
        self.seeds.append(scenario.seed)
        self.directories.append(directory)
        pace = asdict(Pace(passes_overdue=self.late.get(scenario.seed, 0.0)))
        costs = {"wall": 1.0, "cores": {"crowd-1": 0.5}, "pace": pace}
        (directory / "costs.json").write_text(json.dumps(costs))
        return Observed((), (), {}, passes=7)


@pytest.fixture
def playing(monkeypatch: pytest.MonkeyPatch) -> Playing:
    found = Playing()
    monkeypatch.setattr(command, "play", found)
    monkeypatch.setattr(command, "_lacking", lambda: "")
    monkeypatch.setattr(command, "_works", lambda _score: True)
    return found


def test_a_run_that_was_stopped_goes_on_with_the_seeds_that_are_missing_or_late(
    tmp_path: Path, playing: Playing, capsys: pytest.CaptureFixture[str]
) -> None:
    playing.late = {2: 0.03}
    arguments = ["--quick", "--seeds", "1-2", "--resume", str(tmp_path)]
    assert command.main(arguments) == 0
    assert playing.seeds == [1, 2]
    said = capsys.readouterr()
    assert "seed 2 (2 of 2): does not count" in said.err
    assert "passes were overdue for 3.0% of the time" in said.out
    playing.late = {}
    assert command.main(arguments) == 0
    assert playing.seeds == [1, 2, 2]
    assert command.main([*arguments, "--score"]) == 0
    assert playing.seeds == [1, 2, 2]
    assert "Cores that each kind of process kept busy" in capsys.readouterr().out


def test_rows_are_of_the_day_the_machine_and_the_versions_that_were_played_whoever_scores_them(
    tmp_path: Path, playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--quick", "--seeds", "1", "--resume", str(tmp_path)]
    kept: list[tuple[Sequence[results.Row], str]] = []
    monkeypatch.setattr(results, "report", lambda rows, options, *, section, machine: kept.append((rows, machine)))
    monkeypatch.setattr(results, "describe_machine", lambda: "a big one")
    monkeypatch.setattr(results, "today", lambda: "2031-01-02")
    monkeypatch.setattr(results, "command_version", lambda program: f"{Path(program).name} of then")
    command.main(arguments)
    monkeypatch.setattr(results, "today", lambda: "2032-01-01")
    monkeypatch.setattr(results, "command_version", lambda program: f"{Path(program).name} of now")
    monkeypatch.setattr(results, "describe_machine", lambda: "a small one")
    command.main([*arguments, "--score"])
    assert playing.seeds == [1]
    assert len(kept) == 2
    for rows, machine in kept:
        assert machine == "a big one"
        assert {row.day for row in rows} == {"2031-01-02"}
        assert any(row.versions.startswith("prometheus of then, postgres of then, psycopg ") for row in rows)
        assert not any("of now" in row.versions for row in rows)


def test_programs_are_started_in_places_that_are_the_same_from_anywhere(
    tmp_path: Path, playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run in directories of their own, where a path that a person wrote beside this one leads nowhere."""
    monkeypatch.chdir(tmp_path)
    assert command.main(["--quick", "--resume", "runs"]) == 0
    (directory,) = playing.directories
    assert directory.is_relative_to(tmp_path / "runs")
    assert (tmp_path / "runs" / "seed-1.json.gz").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_interrupts_it_finds_the_seeds_that_were_over(
    number: signal.Signals, tmp_path: Path, playing: Playing, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """Also where SIGINT was ignored when it was started, as shells have it of what runs in the background."""
    before = signal.signal(number, signal.SIG_IGN)
    try:

        def play(scenario: Scenario, **others: Any) -> Observed:
            if scenario.seed == 2:
                signal.raise_signal(number)
            return playing(scenario, **others)

        monkeypatch.setattr(command, "play", play)
        assert command.main(["--quick", "--seeds", "1-2", "--resume", str(tmp_path)]) == 130
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)
    assert playing.seeds == [1]
    assert (tmp_path / "seed-1.json.gz").exists()
    assert f"goes on with what is in {tmp_path}" in capsys.readouterr().err


def test_a_late_run_is_shown_and_counts_only_where_that_is_asked_for(
    tmp_path: Path, playing: Playing, capsys: pytest.CaptureFixture[str]
) -> None:
    playing.late = {1: 0.03}
    arguments = ["--quick", "--resume", str(tmp_path)]
    assert command.main(arguments) == 3
    assert "there is nothing to score" in capsys.readouterr().err
    assert command.main([*arguments, "--score"]) == 3
    assert command.main([*arguments, "--late"]) == 0
    assert playing.seeds == [1]


def test_a_machine_that_is_too_slow_is_not_kept_busy_for_hours_in_vain(
    tmp_path: Path, playing: Playing, capsys: pytest.CaptureFixture[str]
) -> None:
    playing.late = dict.fromkeys((1, 4, 6), 0.03)
    arguments = ["--quick", "--seeds", "1,2,4,6-8"]
    assert command.main([*arguments, "--resume", str(tmp_path / "counting")]) == 0
    assert playing.seeds == [1, 2, 4, 6]
    assert "2 seeds in a row came late; take a lower --time-scale" in capsys.readouterr().err
    assert command.main([*arguments, "--resume", str(tmp_path / "late"), "--late"]) == 0
    assert playing.seeds[4:] == [1, 2, 4, 6, 7, 8]


def test_runs_of_other_settings_or_code_make_no_common_figure(
    tmp_path: Path, playing: Playing, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--quick", "--resume", str(tmp_path)]
    assert command.main([*arguments, "--seeds", "1"]) == 0
    assert command.main([*arguments, "--seeds", "2", "--read-interval", "5"]) == 0
    assert command.main([*arguments, "--seeds", "1,2", "--score"]) == 0
    assert "seed-2.json.gz is played with another read interval" in capsys.readouterr().err
    monkeypatch.setattr(command, "code", lambda folders: "other" if folders is command.CHAIN else code(folders))
    assert command.main([*arguments, "--seeds", "1"]) == 0
    assert "seed-1.json.gz is played by other code" in capsys.readouterr().err
    assert playing.seeds == [1, 2, 1]


def test_a_run_with_a_setting_that_is_no_more_makes_no_figure_with_todays(
    tmp_path: Path, playing: Playing, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--quick", "--resume", str(tmp_path), "--seeds", "1"]
    assert command.main(arguments) == 0
    kept = played.read(tmp_path / "seed-1.json.gz")
    played.write(tmp_path / "seed-1.json.gz", replace(kept, settings={**kept.settings, "half_speed": 1.0}))
    assert command.main(arguments) == 0
    assert "seed-1.json.gz is played with another half speed" in capsys.readouterr().err
    assert playing.seeds == [1, 1]


def test_runs_that_other_machines_played_slower_make_a_common_figure(
    tmp_path: Path, playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--quick", "--resume", str(tmp_path)]
    said: list[str] = []
    monkeypatch.setattr(results, "report", lambda rows, *_, **__: said.append(rows[0].figure))
    assert command.main([*arguments, "--seeds", "1", "--time-scale", "40"]) == 0
    assert command.main([*arguments, "--seeds", "1,2", "--time-scale", "25"]) == 0
    assert playing.seeds == [1, 2]
    assert ", 40 times as fast" in said[0]
    assert ", 25 to 40 times as fast" in said[1]


def test_a_run_ends_where_the_code_has_changed_meanwhile(
    tmp_path: Path, playing: Playing, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "code", lambda _folders: f"after {len(playing.seeds)} seeds")
    monkeypatch.setattr(command, "JOBS", ())
    command.main(["--quick", "--seeds", "1-2", "--resume", str(tmp_path)])
    assert playing.seeds == [1]
    assert "the code has changed since the first seed" in capsys.readouterr().err


def test_a_plan_for_which_the_fleet_is_too_small_is_refused(
    playing: Playing, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--quick", "--seeds", "3"]) == 2
    assert "a job of 16 GPUs fits on none of the fleet's nodes" in capsys.readouterr().err
    assert not playing.seeds
