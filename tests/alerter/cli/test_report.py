"""`dutycycle report`: every kind and form from a store, and what is said where something is wrong."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from dutycycle_alerter.cli import cli
from dutycycle_alerter.cli.report_text import report_text
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.model import Consumption, Gpu, Job
from dutycycle_alerter.reports.model import Asked, Kind, RuleOutcomes, RulesReport
from dutycycle_alerter.reports.sheet import sheets
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.store import ledger
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.reader import open_reader
from dutycycle_alerter.views import Status

HOUR = 3600.0
START = 480_000 * HOUR
ODD = "lab\N{RIGHT-TO-LEFT OVERRIDE}\x9b2Jé"
"""An account whose name would clear a terminal."""


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store at 60 times real time, in which alice used GPUs in the hour (a real minute) of `START`."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 's.sqlite3'}"
    else:
        url = str(request.getfixturevalue("postgres_url"))
    database = open_database(url, time_scale=60)
    job = Job("slurm/1", (Gpu("n", "0"),), START, user="alice", account=ODD, cluster="north")
    with database.write() as connection:
        ledger.add(connection, START, [(job, Consumption("H200", 60.0, 60.0, 6.0, 6e4))], hour=HOUR / 60)
    database.close()
    return url


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, ["report", *arguments], env=environment)


def test_the_help_names_the_column_that_it_is_sorted_by() -> None:
    assert "wasted by default" in " ".join(run("--help").output.split())


def ranged(store: str, kind: str, *more: str, **environment: str) -> Result:
    found = run(kind, "--database", store, "--since", "2024-10-03", "--until", "2024-10-05", *more, **environment)
    assert found.exit_code == 0, found.output
    return found


@pytest.mark.parametrize("kind", [kind.value for kind in Kind])
def test_every_kind_comes_in_every_form(store: str, tmp_path: Path, kind: str) -> None:
    assert "alice" in ranged(store, kind).output or kind != "users"
    assert list(csv.reader(io.StringIO(ranged(store, kind, "--format", "csv").output)))
    assert json.loads(ranged(store, kind, "--format", "json").output)["kind"] == kind
    assert ranged(store, kind, "--format", "html").output.startswith("<!doctype html>")
    file = tmp_path / "r.png"
    ranged(store, kind, "--format", "png", "--output", str(file))
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("columns", [80, 100])
def test_a_rule_is_named_in_one_line(columns: int) -> None:
    """The longest name beside figures as wide as they get."""
    lines = of_rules(columns, "idle", "memory_underused", "partially_idle")
    assert "memory underused 12,345 12,345 0 0 20 % 0 0 7" in lines
    assert "partially idle 12,345 12,345 0 0 20 % 0 0 7" in lines


def test_a_long_name_folds_and_costs_no_figure() -> None:
    lines = of_rules(80, "a_name_of_somebody_s_account_that_is_longer_than_any_rule_s")
    assert [line for line in lines if line.endswith(" 12,345 12,345 0 0 20 % 0 0 7")]


def of_rules(columns: int, *names: str) -> list[str]:
    """The report's lines on a terminal of that width, without what aligns them."""
    rows = tuple(RuleOutcomes(name, opened=12_345, told=12_345, wrong=2_469, active=7) for name in names)
    found = RulesReport(Asked(Kind.RULES, START, START + HOUR), rows)
    text = io.StringIO()
    console = Console(file=text, width=columns, color_system=None)
    status = Status(
        START, 1.0, replay=False, last_pass=START, first_verdict_at=None, jobs_judged=0, targets=(), not_evaluable=()
    )
    for part in report_text(found, sheets(found, Costs()), status):
        console.print(part)
    assert max(map(len, text.getvalue().splitlines())) <= columns
    return [" ".join(line.split()) for line in text.getvalue().splitlines()]


@pytest.mark.parametrize("columns", [40, 60])
def test_with_hardly_any_room_no_line_is_longer(store: str, columns: int) -> None:
    found = ranged(store, "accounts", COLUMNS=str(columns))
    assert max(map(len, found.output.splitlines())) <= columns


def test_what_is_shown_is_on_the_scale_of_people_and_as_users_has_it(store: str) -> None:
    found = json.loads(ranged(store, "users", "--format", "json").output)
    (row,) = found["rows"]
    assert (row["name"], row["allocated_gpu_hours"], row["wasted_gpu_hours"]) == ("alice", 1, 0.9)
    assert row["energy_kwh"] == 1
    reader = open_reader(store)
    (user,) = reader.users(since=START, until=START + HOUR)
    reader.close()
    assert (user.user, user.allocated / HOUR, user.wasted / HOUR) == ("alice", 1, pytest.approx(0.9))


def test_another_cluster_has_nothing(store: str) -> None:
    assert json.loads(ranged(store, "users", "--format", "json", "--cluster", "south").output)["rows"] == []
    assert "Unknown. No GPU was seen in this time." in ranged(store, "users", "--cluster", "south").output


def test_a_range_without_anything_says_so_and_when_the_ledger_begins(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'empty.sqlite3'}"
    open_database(url).close()
    assert "The ledger is empty: the passes of" in run("users", "--database", url).output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["users", "--sort", "beauty"], "'beauty' is none of user, utilization, wasted"),
        (["waste", "--sort", "wasted"], "order of its own"),
        (["users", "--since", "yesterday"], "is no moment"),
        (["users", "--since", "1d", "--until", "2d"], "before it ends"),
        (["users", "--limit", "0"], "0 is not in the range"),
        (["nothing"], "is not one of"),
        (["users", "--output", "/nowhere/at/all.csv", "--format", "csv"], "cannot be written"),
    ],
)
def test_wrong_usage_is_said_and_has_its_code(tmp_path: Path, arguments: list[str], said: str) -> None:
    url = f"sqlite:///{tmp_path / 'empty.sqlite3'}"
    open_database(url).close()
    found = run(*arguments, "--database", url)
    assert found.exit_code == 2
    assert said in " ".join(found.output.replace("│", " ").split())


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    found = run("users", "--database", f"sqlite:///{tmp_path / 'none.sqlite3'}")
    assert isinstance(found.exception, ConfigError)
    assert "there is no store at" in str(found.exception)
    assert list(tmp_path.iterdir()) == []


def test_json_steers_no_terminal_and_has_names_as_they_are(store: str) -> None:
    said = ranged(store, "accounts", "--format", "json").output
    assert said.isascii()
    assert [row["name"] for row in json.loads(said)["rows"]] == [ODD]


def test_times_are_of_the_configurations_zone(store: str, tmp_path: Path) -> None:
    """As those of mails; a day is one of that zone, too."""
    config = tmp_path / "c.yaml"
    config.write_text(f"database: {store}\nnotify: {{timezone: Pacific/Kiritimati}}\n")
    day = ("--config", str(config), "--since", "2024-10-04", "--until", "2024-10-04")
    for form in ("table", "html"):
        assert "2024-10-04 00:00 to 2024-10-05 00:00 +14" in run("users", *day, "--format", form).output
    found = json.loads(run("users", *day, "--format", "json").output)
    assert (found["since"], found["until"]) == ("2024-10-03T10:00:00.000Z", "2024-10-04T10:00:00.000Z")


def test_costs_are_the_configurations(store: str, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"database: {store}\ncosts: {{gpu_hour: 2, currency: EUR}}\n")
    text = run("users", "--config", str(config), "--since", "2024-10-03", "--until", "2024-10-05").output
    assert "EUR" in text
    assert "1.80" in text
