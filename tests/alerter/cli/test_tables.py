"""`dutycycle incidents|users|gpus` over the real store: what is printed, as tables and as JSON."""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from dutycycle_alerter.cli import cli
from dutycycle_alerter.cli.reading import Where
from dutycycle_alerter.errors import AlerterError, ConfigError, IncidentNotFoundError, TransitionError
from dutycycle_alerter.incidents.model import State
from dutycycle_alerter.store import counters
from dutycycle_alerter.store.database import open_database, set_meta
from dutycycle_alerter.store.reader import open_reader
from dutycycle_alerter.store.status import STATUS
from dutycycle_alerter.views import IncidentFilter


class Shell:
    """Runs commands against one store, as in a terminal of 80 columns without colour."""

    def __init__(self, store: Path) -> None:
        self.url = f"sqlite:///{store}"

    def __call__(self, *arguments: str, **environment: str) -> str:
        result = self.run(*arguments, **environment)
        if result.exception is not None:
            raise result.exception
        return result.output

    def run(self, *arguments: str, **environment: str) -> Result:
        settings = {"COLUMNS": "80", "DUTYCYCLE_DATABASE": self.url, "TERM": "dumb", **environment}
        return CliRunner().invoke(cli, arguments, env=settings)

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))

    def incident_of(self, user: str) -> str:
        reader = open_reader(self.url)
        try:
            return str(reader.incidents(IncidentFilter(user=user))[0][0].id)
        finally:
            reader.close()


@pytest.fixture
def shell(store_file: Path) -> Shell:
    return Shell(store_file)


def squeezed(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "arguments",
    [["incidents", "--state", "all"], ["users"], ["gpus"], ["incidents", "show", "1"], ["incidents", "show", "5"]],
)
def test_everything_fits_80_columns_without_colour(shell: Shell, arguments: list[str]) -> None:
    lines = shell(*arguments).splitlines()
    assert lines
    assert max(len(line) for line in lines) <= 80
    assert not [line for line in lines if "\x1b" in line]


def test_incidents(shell: Shell) -> None:
    said = squeezed(shell("incidents", COLUMNS="120"))  # after midnight times are dates, and wrap at 80
    assert "Source gpu-b01 does not answer: " in said
    assert "All 4 GPUs are idle alice gpu-a01:0–3" in said
    assert "critical, open" in said
    assert "11.9 h" in said
    assert "5 of 5 incidents." in said


@pytest.mark.parametrize(
    ("arguments", "users"),
    [
        ((), {"alice", "bob", "carol", "dmitri", "erin"}),
        (("--state", "resolved"), {"heidi"}),
        (("--state", "all", "--account", "vision"), {"bob", "carol", "heidi"}),
        (("--rule", "idle"), {"alice"}),
        (("--severity", "critical"), {"alice"}),
        (("--user", "bob"), {"bob"}),
        (("--node", "gpu-a02", "--text", "speech"), {"dmitri"}),
    ],
)
def test_filters(shell: Shell, arguments: tuple[str, ...], users: set[str]) -> None:
    answer = shell.json("incidents", *arguments)
    assert {incident["user"] for incident in answer["incidents"]} == users
    assert answer["total"] == len(users)


def test_a_filter_that_matches_nothing_says_so(shell: Shell) -> None:
    assert "No incident matches." in shell("incidents", "--user", "nobody")
    assert "No incidents." in shell("incidents", "--state", "snoozed")


def test_limit(shell: Shell) -> None:
    assert "2 of 5 incidents." in shell("incidents", "--limit", "2")


def test_show(shell: Shell) -> None:
    said = squeezed(shell("incidents", "show", shell.incident_of("bob")))
    assert "2 of 4 GPUs are idle warning open" in said
    assert "Job slurm/41311 of bob, account vision, partition gpu" in said
    assert "Likely one of: over-request / communication or straggler" in said
    assert "To tell them apart" in said
    assert "In guides on GPU utilization: GPUs held and not used, inefficient parallelization" in said
    assert "1. Ask for 2 GPUs instead of 4" in said
    assert "2. Ask for as many GPUs as the program uses" in said
    assert "srun --jobid=41311 --overlap --pty nvidia-smi" in said
    assert "opened: partially idle" in said
    answer = shell.json("incidents", "show", shell.incident_of("bob"))
    assert answer["incident"]["subject"] == "slurm/41311"
    assert [event["kind"] for event in answer["events"]] == ["opened"]


def test_acknowledge_snooze_resolve(shell: Shell) -> None:
    number = shell.incident_of("alice")
    assert f"Incident {number} is now acknowledged" in shell(
        "incidents", "ack", number, "--as", "Olga", "--note", "asked"
    )
    assert "is now snoozed until" in shell("incidents", "snooze", number, "--for", "2h")
    assert "is now snoozed until" in shell("incidents", "snooze", number, "--until", "2199-01-31T08:00")
    assert "is now resolved" in shell("incidents", "resolve", number)
    answer = shell.json("incidents", "show", number)
    assert [event["kind"] for event in answer["events"]][-4:] == ["acknowledged", "snoozed", "snoozed", "resolved"]
    acknowledged = answer["events"][-4]
    assert (acknowledged["actor"], acknowledged["text"]) == ("Olga", "asked")
    assert answer["incident"]["state"] == State.RESOLVED
    assert "acknowledged by Olga: asked" in squeezed(shell("incidents", "show", number))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("incidents", "show", "99"), IncidentNotFoundError),
        (("incidents", "ack", "99"), IncidentNotFoundError),
        (("incidents", "resolve", "1"), TransitionError),
        (("incidents", "snooze", "5", "--until", "2001-01-01"), TransitionError),
    ],
)
def test_what_cannot_be_done_is_an_error(shell: Shell, arguments: tuple[str, ...], error: type[AlerterError]) -> None:
    with pytest.raises(error):
        shell(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("incidents", "--state", "closed"),
        ("incidents", "--limit", "0"),
        ("incidents", "show", "x"),
        ("incidents", "snooze", "1", "--for", "soon"),
        ("users", "--since", "yesterday"),
        ("users", "--since", "0s"),
    ],
)
def test_wrong_usage(shell: Shell, arguments: tuple[str, ...]) -> None:
    assert shell.run(*arguments).exit_code == 2


def test_users(shell: Shell) -> None:
    shown = shell("users", "--since", "7d")
    said = squeezed(shown)
    assert "user03 █░░░░░░░░░ 9.0 % 50.8 57.0 unknown 1 0" in said
    assert "alice ░░░░░░░░░░ 0 % 11.9 11.9 831 Wh 1 1" in said
    assert "9 of 34 measured under 15 % (26 % of them), median" in said
    assert "Utilization Users GPU-hours measured" in said
    answer = shell.json("users")
    assert len(answer["users"]) == 34
    assert len(answer["users_histogram"]) == 20
    measured = sum(user["observed_gpu_hours"] for user in answer["users"])
    assert sum(answer["gpu_hours_histogram"]) == pytest.approx(measured)
    means = [user["mean_utilization_percent"] for user in answer["users"]]
    assert answer["median_utilization_percent"] == pytest.approx(statistics.median(means))
    rows = [line.split() for line in shown.splitlines() if "–" in line]
    assert [row[0] for row in rows] == [f"{low}–{low + 5}" for low in range(0, 100, 5)]
    assert [int(row[3]) if len(row) > 2 else 0 for row in rows] == answer["users_histogram"]
    bars = [len(row[2]) if len(row) > 2 else 0 for row in rows]
    assert max(bars) == bars[answer["users_histogram"].index(max(answer["users_histogram"]))] == 24
    said = squeezed(shell("users", "--since", "1s"))
    assert "Unknown. A source does not answer, so jobs may hold GPUs that cannot be seen." in said


def test_gpus(shell: Shell) -> None:
    """The last node's exporter was silent in the end, so its GPUs are unknown however late this test runs."""
    said = shell("gpus")
    row = squeezed(next(line for line in said.splitlines() if line.startswith("gpu-b01:0")))
    assert row == "gpu-b01:0 unknown unknown unknown unknown grace slurm/41362"
    assert len(shell.json("gpus")["gpus"]) == 20


def test_where_prometheus_is_the_source_no_gpu_is_waited_for(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite3"
    database = open_database(f"sqlite:///{store}")
    with database.write() as connection:
        set_meta(connection, STATUS, {"last_pass": 1.0, "lists_gpus": False})
    said = squeezed(Shell(store)("gpus"))
    assert "With Prometheus, see the Fleet and Node dashboards in Grafana." in said
    with database.write() as connection:
        set_meta(connection, STATUS, {"last_pass": 1.0})
    database.close()
    assert "No GPU has been seen yet." in squeezed(Shell(store)("gpus"))


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        ({}, "Unknown. No evaluation has finished yet."),
        (
            {
                "last_pass": 1.0,
                "targets": [{"url": "http://gpu01:9836", "node": "", "last_success": None, "error": "refused"}],
            },
            "Unknown. A source does not answer",
        ),
    ],
    ids=["before the first pass", "every source fails"],
)
def test_an_empty_list_without_evidence_is_unknown(tmp_path: Path, kept: dict[str, object], says: str) -> None:
    store = tmp_path / "store.sqlite3"
    database = open_database(f"sqlite:///{store}")
    with database.write() as connection:
        set_meta(connection, STATUS, kept)
    database.close()
    for command in ("incidents", "users", "gpus"):
        assert says in squeezed(Shell(store)(command))


def test_a_busy_gpu_of_an_unknown_process_is_not_free(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite3"
    database = open_database(f"sqlite:///{store}")
    row = {"node": "gpu01", "gpu_uuid": "GPU-0", "mig": "", "gpu": "0", "model": "H200", "workloads": []}
    with database.write() as connection:
        set_meta(connection, STATUS, {"last_pass": 1.0, "stale_after": 1e12})
        reading = {"utilization": 0.99, "processes": 0}
        counters.save_now(connection, ["gpu01"], [row | {"scraped_at": 1.0, "reading": reading}])
    database.close()
    assert "99 % unknown unknown unknown in use by an unknown process" in squeezed(Shell(store)("gpus"))


def test_a_replay_is_said_by_every_command(shell: Shell) -> None:
    database = open_database(shell.url)
    with database.write() as connection:
        set_meta(connection, STATUS, {"replay": True, "time_scale": 60.0, "last_pass": 1.0})
    database.close()
    for arguments in (
        ["incidents"],
        ["incidents", "show", "1"],
        ["users"],
        ["gpus"],
        ["incidents", "ack", shell.incident_of("bob")],
    ):
        assert shell(*arguments).startswith("REPLAY"), arguments
    for arguments in (["incidents"], ["incidents", "show", "1"], ["users"], ["gpus"]):
        assert shell.json(*arguments)["replay"] is True


def test_the_store_may_be_named_before_or_after_the_subcommand(store_file: Path) -> None:
    for arguments in (
        ["incidents", "--database", f"sqlite:///{store_file}", "show", "1", "--json"],
        ["incidents", "show", "1", "--json", "--database", f"sqlite:///{store_file}"],
    ):
        result = CliRunner().invoke(cli, arguments)
        assert json.loads(result.output)["incident"]["id"] == 1


def test_without_a_name_it_is_the_store_that_up_wrote_last(store_file: Path, tmp_path: Path) -> None:
    directory = tmp_path / "state"
    directory.mkdir()
    (directory / "older.sqlite3").touch()
    os.utime(directory / "older.sqlite3", (0, 0))
    store_file.rename(directory / "replay.sqlite3")
    result = CliRunner().invoke(cli, ["incidents", "--state-dir", str(directory), "--json"])
    assert json.loads(result.output)["total"] == 5


def test_the_store_that_is_being_written_is_found_by_its_write_ahead_log(tmp_path: Path) -> None:
    """SQLite leaves the store's own file alone until a checkpoint: a live store may look older than a finished one."""
    live, finished = tmp_path / "live.sqlite3", tmp_path / "finished.sqlite3"
    with closing(sqlite3.connect(live, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        os.utime(live, (1000, 1000))
        connection.execute("CREATE TABLE later (x)")
        assert live.stat().st_mtime == 1000
        finished.touch()
        os.utime(finished, (2000, 2000))
        assert Where(state_dir=tmp_path).url() == f"sqlite:///{live}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--state-dir", "{tmp}"], "there is no store in {tmp}: start `dutycycle up`"),
        (
            ["--database", "sqlite:///{tmp}/none.sqlite3"],
            "there is no store at {tmp}/none.sqlite3; name one with --state-dir or --database",
        ),
        (["--database", "nonsense"], "is not a database URL"),
    ],
)
def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(cli, ["incidents", *(a.format(tmp=tmp_path) for a in arguments)])
    assert isinstance(result.exception, ConfigError)
    assert says.format(tmp=tmp_path) in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_colour_on_a_terminal(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in shell("incidents", TERM="xterm-256color")
    assert "\x1b[" not in shell("incidents", TERM="xterm-256color", NO_COLOR="1", FORCE_COLOR="")


@pytest.mark.parametrize("command", ["incidents", "users", "gpus"])
def test_help_shows_examples(command: str) -> None:
    result = CliRunner().invoke(cli, [command, "--help"])
    assert "Examples:" in result.output
    assert isinstance(cli.get_command(click.Context(cli), command), click.Command)
