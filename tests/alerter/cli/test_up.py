"""`dutycycle up` where it cannot start: what is said, before a process is started or a file written."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dutycycle_alerter import cli

Up = Callable[..., str]


@pytest.fixture
def up(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Up]:
    """Runs it to its end, which is one of wrong usage; answers what it says on stderr."""
    handlers = logging.getLogger().handlers[:]

    def run(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["dutycycle", "up", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2
        return capfd.readouterr().err

    yield run
    logging.getLogger().handlers[:] = handlers


@pytest.mark.parametrize(("directory", "why"), [("file", "File exists"), ("file/below", "Not a directory")])
def test_a_state_directory_that_cannot_be_made_is_told_in_a_line(
    up: Up, tmp_path: Path, directory: str, why: str
) -> None:
    (tmp_path / "file").touch()
    state = tmp_path / directory
    remedy = "name a directory that you may write to with --state-dir"
    assert up("--demo", "--state-dir", state) == f"dutycycle: {state} cannot be made: {why}; {remedy}\n"


def test_a_state_directory_that_may_not_be_made_is_told_in_a_line(
    up: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    said = up("--demo", "--state-dir", tmp_path / "state")
    assert said.startswith(f"dutycycle: {tmp_path / 'state'} cannot be made: Permission denied; name a directory")
    assert said.count("\n") == 1


def test_a_database_in_the_configuration_is_said_not_to_be_used(up: Up, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    state = tmp_path / "state"
    # It ends at the address of the page, which comes last.
    arguments = ("--demo", "--config", config, "--state-dir", state, "--web.listen-address", "nonsense")
    config.write_text("database: postgresql://u:s3cret@h/n\n")
    line = up(*arguments).splitlines()[0]
    store = state / "replay.sqlite3"
    assert line == f"dutycycle: {config}: database is not used by `dutycycle up`: its store is {store} (--state-dir)"
    config.write_text("time_scale: 1\n")
    assert "database" not in up(*arguments)


@pytest.mark.parametrize("header", ["timestamp, index, utilization.gpu [%]\n", ""])
def test_a_log_of_nvidia_smi_is_not_played_and_what_reads_it_is_named(up: Up, tmp_path: Path, header: str) -> None:
    log = tmp_path / "gpu.csv"
    log.write_text(f"{header}2026/11/20 10:00:00.000, 0, 7 %\n")
    said = up("--replay", log, "--state-dir", tmp_path / "state")
    assert said.startswith(f"dutycycle: {log}: a log of nvidia-smi; --replay plays only recordings")
    assert f"`dutycycle analyze {log}` reads such a log" in said
