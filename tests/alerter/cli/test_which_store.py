"""Which store a command takes: what is said nearer counts before what is said further away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dutycycle_alerter.cli import cli
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.store.database import open_database

STATE = "state"


def store(path: Path, *, written: float | None = None) -> Path:
    path.parent.mkdir(exist_ok=True)
    open_database(f"sqlite:///{path}").close()
    if written is not None:
        os.utime(path, (written, written))
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    for name in ("DUTYCYCLE_DATABASE", "DUTYCYCLE_CONFIG", "DUTYCYCLE_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def config(here: Path) -> Path:
    """A configuration whose store is not there."""
    path = here / "c.yaml"
    path.write_text(f"database: sqlite:///{here / 'configured.sqlite3'}\n")
    return path


def run(*arguments: object, **environment: object) -> Result:
    said = {name: str(value) for name, value in environment.items()}
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], env=said)


def missing(result: Result) -> str:
    """What is said of a store that is not there."""
    assert isinstance(result.exception, ConfigError), result.output
    return str(result.exception)


def test_a_directory_on_the_command_line_counts_before_a_configuration(here: Path, config: Path) -> None:
    store(here / STATE / "replay.sqlite3")
    assert run("incidents", "--config", config, "--state-dir", STATE).exit_code == 0
    assert run("incidents", "--state-dir", STATE, DUTYCYCLE_CONFIG=config).exit_code == 0
    elsewhere = f"sqlite:///{here / 'none.sqlite3'}"
    assert run("incidents", "--state-dir", STATE, DUTYCYCLE_DATABASE=elsewhere).exit_code == 0
    # Named beside it, the database is what is meant.
    assert "no store at" in missing(run("incidents", "--state-dir", STATE, "--database", elsewhere))


def test_a_directory_in_the_environment_does_not(here: Path, config: Path) -> None:
    store(here / STATE / "replay.sqlite3")
    said = missing(run("incidents", "--config", config, DUTYCYCLE_STATE_DIR=STATE))
    assert said == f"there is no store at {here / 'configured.sqlite3'}; name one with --state-dir or --database"


def test_what_the_command_line_says_before_the_subcommand_counts_before_the_environment(here: Path) -> None:
    url = f"sqlite:///{store(here / 'a.sqlite3')}"
    none = f"sqlite:///{here / 'none.sqlite3'}"
    result = run("incidents", "--database", url, "ack", "1", DUTYCYCLE_DATABASE=none)
    assert "there is no incident 1" in str(result.exception)


def test_db_takes_the_store_that_up_wrote_last(here: Path) -> None:
    store(here / STATE / "dutycycle.sqlite3", written=1000)
    newest = store(here / STATE / "replay.sqlite3")
    checked, copied = run("db", "check"), run("db", "backup", "copy.sqlite3")
    assert (checked.exit_code, copied.exit_code) == (0, 0)
    assert checked.output.splitlines()[0] == f"sqlite:///{newest}"
    assert (here / "copy.sqlite3").stat().st_size > 0
    other = store(here / "other" / "x.sqlite3")
    assert run("db", "check", "--state-dir", "other").output.splitlines()[0] == f"sqlite:///{other}"


def test_db_takes_the_store_of_serve_where_it_is_there_and_says_what_it_copied(here: Path) -> None:
    """A backup of what a demo wrote since would be noticed when it is needed."""
    served = store(here / "dutycycle.sqlite3", written=1000)
    store(here / STATE / "replay.sqlite3")
    assert run("db", "check").output.splitlines()[0] == f"sqlite:///{served.name}"
    assert run("db", "backup", "copy.sqlite3").output.endswith(f", a copy of sqlite:///{served.name}\n")


def test_db_upgrade_makes_no_store_beside_the_one_of_up(here: Path) -> None:
    kept = store(here / STATE / "replay.sqlite3")
    assert run("db", "upgrade").output.startswith(f"sqlite:///{kept}: at revision ")
    assert not (here / "dutycycle.sqlite3").exists()


def test_without_a_store_of_up_db_means_the_one_of_serve(here: Path) -> None:
    remedy = "name one with --state-dir or --database"
    assert remedy in missing(run("db", "check"))
    assert remedy in missing(run("db", "backup", "copy.sqlite3"))
    assert list(here.iterdir()) == []
    assert "created" in run("db", "upgrade").output
    assert (here / "dutycycle.sqlite3").exists()
    assert run("db", "check").exit_code == 0


def test_db_upgrade_makes_no_store_in_a_directory_that_has_none(here: Path) -> None:
    assert "there is no store in" in missing(run("db", "upgrade", "--state-dir", here))
    assert list(here.iterdir()) == []
