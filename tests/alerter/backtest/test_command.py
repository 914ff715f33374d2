"""`dutycycle backtest` as it is used: what it prints, what it refuses, and how it ends."""

import json
import os
import pty
import subprocess
import sys
from datetime import UTC
from importlib.resources import as_file, files
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dutycycle_alerter.cli import cli
from dutycycle_alerter.cli.moments import parse_moment
from dutycycle_alerter.errors import ConfigError, RecordingError
from dutycycle_alerter.recordings.writing import RecordingWriter
from tests.alerter.recordings.rows import START, steady

STRICT = "judging: {rules: {underused: {below: 0.30}}}\n"
WITHOUT_UNEVEN = "policies: {exceptions: [{name: course, rules: [uneven], exclude: true, reason: a course}]}\n"


def run(*arguments: object, **environment: str) -> Result:
    return CliRunner().invoke(cli, ["backtest", *map(str, arguments)], env={"DUTYCYCLE_CONFIG": None, **environment})


@pytest.fixture
def strict(tmp_path: Path) -> Path:
    path = tmp_path / "strict.yaml"
    path.write_text(STRICT)
    return path


@pytest.fixture
def week(tmp_path: Path) -> Path:
    """Ann's job idles for an hour; Bob's works at 28 %."""
    path = tmp_path / "week.csv.gz"
    low = steady(0.28, 60, workload="low", user="bob", gpu="1")
    with RecordingWriter(path) as writer:
        usual = {"node": "n1", "gpu": "0", "workload": "job", "user": "ann"}
        writer.write(usual | row for row in [*steady(0.0, 60), *low])
    return path


def test_json_is_one_object_with_both_results_and_what_differs(strict: Path, week: Path) -> None:
    done = run("--config", strict, "--json", week)
    assert done.exit_code == 0
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert (said["start"], said["end"]) == ("2023-11-14T22:13:20.000Z", "2023-11-14T23:13:20.000Z")
    assert (said["step_seconds"], said["instants"], said["same"]) == (300, 12, 1)
    assert (said["current"]["incidents"], said["new"]["incidents"]) == (1, 2)
    assert said["new"]["incidents_by_severity"] == {"info": 0, "warning": 2, "critical": 0}
    assert (said["new"]["jobs"], said["new"]["jobs_judged"], said["new"]["users_with_incidents"]) == (2, 2, 2)
    assert said["new"]["firing"] == {"idle": 5, "underused": 5}
    assert [(row["rule"], row["severity"], row["incidents"]) for row in said["new"]["rules"]] == [
        ("idle", "warning", 1),
        ("underused", "warning", 1),
    ]
    assert [(row["user"], row["incidents"], row["mails"]) for row in said["new"]["users"]] == [
        ("ann", 1, 0),
        ("bob", 1, 0),
    ]
    assert (said["gone"], said["changed"]) == ([], [])
    (added,) = said["added"]
    assert (added["workload"], added["user"], added["rule"], added["opened"]) == (
        "low",
        "bob",
        "underused",
        "2023-11-14T22:53:20.000Z",
    )
    assert added["wasted_gpu_hours"] == pytest.approx(0.72 * 50 / 60, abs=1e-6)
    assert (added["resolution"], added["mailed"]) == ("ended", None)


def test_people_get_figures_rules_users_and_what_differs(strict: Path, week: Path) -> None:
    done = run("--config", strict, "--timezone", "UTC", week)
    assert done.exit_code == 0
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for expected in (
        "14 Nov 2023, 22:13 to 14 Nov 2023, 23:13, judged every 5 min: 12 times",
        "2 of 2 jobs could be judged",
        "Incidents 1 2 +1",
        "Emails to users 0 0 0",
        "Wasted GPU-hours 0.83 1.4 within incidents",
        "underused warning 0 1 0 0.60",
        "bob 0 1 0 0 0.60",
        "Added 1: 1 underused",
        "Job low of bob",
        "Since 14 Nov 2023, 22:23, for 50 min; 0.60 GPU-hours wasted",
        "1 incident alike under both",
    ):
        assert expected in lines, done.stdout
    assert "\x1b" not in done.stdout


def test_the_same_configuration_comes_to_the_same(strict: Path, week: Path) -> None:
    done = run("--config", strict, "--against", strict, week)
    assert "Both configurations come to the same: 2 incidents." in done.stdout
    assert "Added" not in done.stdout


def test_the_present_configuration_may_come_from_the_environment(strict: Path, week: Path) -> None:
    said = json.loads(run("--config", strict, "--json", week, DUTYCYCLE_CONFIG=str(strict)).stdout)
    assert (said["current"]["incidents"], said["added"]) == (2, [])


def test_the_bundled_recording_gives_the_known_answers(tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(WITHOUT_UNEVEN)
    with as_file(files("dutycycle_alerter") / "data" / "demo.csv.gz") as demo:
        said = json.loads(run("--config", tmp_path / "new.yaml", "--json", demo).stdout)
    assert {(row["rule"], row["severity"]): row["incidents"] for row in said["current"]["rules"]} == {
        ("idle", "critical"): 1,
        ("idle", "warning"): 1,
        ("partially_idle", "warning"): 1,
        ("stalled", "warning"): 2,
        ("uneven", "warning"): 1,
        ("underused", "warning"): 1,
    }
    assert [(one["workload"], one["rule"]) for one in said["gone"]] == [("slurm/48214", "uneven")]
    assert (said["added"], said["changed"], said["same"]) == ([], [], 6)
    assert (said["current"]["mails"], said["new"]["mails"]) == (1, 1)
    assert set(said["new"]["excluded_jobs"]) == {"course"}


@pytest.mark.parametrize(
    ("arguments", "start", "end"),
    [
        (["--from", "2023-11-14T22:43:20Z"], "22:43:20", "23:13:20"),
        (["--from", "2023-11-14T23:43:20+01:00"], "22:43:20", "23:13:20"),
        (["--from", "30m"], "22:43:20", "23:13:20"),
        (["--from", "30m", "--to", "10m"], "22:43:20", "23:03:20"),
        (["--to", "2023-11-14T23:00:00Z"], "22:13:20", "23:00:00"),
        (["--timezone", "UTC", "--from", "2023-11-14 23:00"], "23:00:00", "23:13:20"),
        (["--timezone", "Asia/Tokyo", "--from", "2023-11-15T08:00"], "23:00:00", "23:13:20"),
    ],
)
def test_the_range_is_what_was_asked_for(strict: Path, week: Path, arguments: list[str], start: str, end: str) -> None:
    done = run("--config", strict, "--json", "--step", "1m", *arguments, week)
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert (said["start"], said["end"]) == (f"2023-11-14T{start}.000Z", f"2023-11-14T{end}.000Z")


def test_a_range_that_reaches_beyond_the_recording_is_cut_and_said(strict: Path, week: Path) -> None:
    done = run("--config", strict, "--json", "--timezone", "UTC", "--from", "2023-11-14", "--to", "2023-11-14", week)
    assert json.loads(done.stdout)["instants"] == 12
    assert "what there is reaches from 2023-11-14T22:13:20Z to 2023-11-14T23:13:20Z" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--from", "2023-11-15", "--to", "2023-11-14"], "is not before --to"),
        (["--from", "10m", "--to", "10m"], "is not before --to"),
        (["--from", "yesterday"], "'yesterday' is no moment: write a day"),
        (["--to", "2023-02-30"], "'2023-02-30' is no moment"),
        (["--step", "0s"], "a length of time is more than 0"),
        (["--step", "soon"], "is not a duration"),
        (["--step", "1ms"], "give a longer step"),
        (["--step", "61m"], "at most 1h"),
        (["--limit", "0"], "--limit"),
        (["--timezone", "Europe/Olso"], "did you mean Europe/Oslo?"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_usage_ends_with_2(strict: Path, week: Path, arguments: list[str], why: str) -> None:
    done = run("--config", strict, *arguments, week)
    assert done.exit_code == 2
    assert why in " ".join(done.stderr.split())


def test_without_a_configuration_to_try_there_is_nothing_to_do(week: Path) -> None:
    done = run(week)
    assert done.exit_code == 2
    assert "Missing option '--config'" in done.stderr


def test_a_range_of_which_nothing_is_known_is_refused(strict: Path, week: Path) -> None:
    done = run("--config", strict, "--from", "2023-11-16", "--to", "2023-11-17", week)
    assert isinstance(done.exception, RecordingError)
    assert "what there is reaches from 2023-11-14T22:13:20Z" in str(done.exception)


def test_a_recording_without_jobs_is_refused(strict: Path, tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "empty.csv") as writer:
        writer.write([{"t": START, "node": "n", "gpu": "0", "workload": "one", "utilization_ratio": 0.5}])
    done = run("--config", strict, tmp_path / "empty.csv")
    assert isinstance(done.exception, RecordingError)
    assert "no job of which anything is known" in str(done.exception)


def test_without_recordings_a_prometheus_section_is_needed(strict: Path) -> None:
    done = run("--config", strict)
    assert isinstance(done.exception, ConfigError)
    assert "name recordings, or a configuration with a prometheus section" in str(done.exception)


@pytest.mark.parametrize("broken", ["config", "against", "recording"])
def test_what_cannot_be_read_is_named(strict: Path, week: Path, tmp_path: Path, broken: str) -> None:
    bad = tmp_path / "bad"
    bad.write_text("judging: {rules: {idel: {}}}\n")
    given = {"config": strict, "against": strict, "recording": week} | {broken: bad}
    done = run("--config", given["config"], "--against", given["against"], given["recording"])
    assert isinstance(done.exception, ConfigError | RecordingError)
    assert str(done.exception).startswith(f"{bad}: ")
    assert done.stdout == ""


def test_a_wrong_configuration_ends_with_2_and_one_line(week: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("judging: {rules: {idel: {}}}\n")
    command = [
        sys.executable,
        "-c",
        "from dutycycle_alerter.cli import main; main()",
        "backtest",
        "--config",
        bad,
        week,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"dutycycle: {bad}: judging.rules.idel: unknown key; did you mean 'idle'?")
    assert "Traceback" not in done.stderr


def test_there_is_colour_and_progress_on_a_terminal_and_nowhere_else(strict: Path, week: Path) -> None:
    command = [sys.executable, "-c", "from dutycycle_alerter.cli import main; main()", "backtest", "--config", strict]
    leader, follower = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "DUTYCYCLE_CONFIG")}
    with subprocess.Popen(
        [*command, week], stdout=follower, stderr=follower, env=environment | {"TERM": "xterm-256color"}
    ) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # how Linux says that the other side is closed
                break
            if not part:
                break
            shown += part
        assert process.wait(60) == 0
    os.close(leader)
    assert b"Judging" in shown
    assert b"\x1b[" in shown


def test_hostile_names_reach_the_terminal_as_text(strict: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    hostile = {"node": "[b]", "gpu": "0", "workload": "[link=x]\u200bjob", "user": "[red]eve\u202e"}
    with RecordingWriter(path) as writer:
        writer.write(hostile | row for row in steady(0.28, 60))
    done = run("--config", strict, path)
    assert done.exit_code == 0
    assert "[red]eve\ufffd" in done.stdout
    assert "[link=x]\ufffdjob" in done.stdout


def test_the_command_is_listed_and_has_examples() -> None:
    assert "backtest" in CliRunner().invoke(cli, ["--help"]).stdout
    assert "dutycycle backtest --config new.yaml week.csv.gz" in run("--help").stdout


# Moments

NOW = 1_795_000_000.0


@pytest.mark.parametrize(
    ("text", "zone", "end_of_day", "expected"),
    [
        ("7d", None, False, NOW - 7 * 86400),
        ("1h30m", None, False, NOW - 5400),
        ("2026-11-20", UTC, False, 1_795_132_800),
        ("2026-11-20", UTC, True, 1_795_219_200),
        ("2026-11-20", ZoneInfo("Europe/Oslo"), False, 1_795_129_200),
        ("2026-11-20T00:00:00Z", ZoneInfo("Europe/Oslo"), True, 1_795_132_800),
        ("2026-11-20T01:00:00+01:00", None, False, 1_795_132_800),
        ("2026-11-20 00:00", UTC, False, 1_795_132_800),
    ],
)
def test_a_moment_is_a_day_a_time_or_how_long_ago(
    text: str, zone: object, expected: float, *, end_of_day: bool
) -> None:
    assert parse_moment(text, now=NOW, zone=zone, end_of_day=end_of_day) == expected  # type: ignore[arg-type]


@hypothesis_settings(max_examples=50)
@given(st.text(max_size=20) | st.from_regex(r"[0-9]{1,4}[-:TZdhms0-9]{0,12}", fullmatch=True))
def test_any_text_is_a_moment_or_an_error_that_says_how(text: str) -> None:
    try:
        assert isinstance(parse_moment(text, now=NOW, zone=UTC), float)
    except ValueError as error:
        assert "write a day" in str(error)  # noqa: PT017 - either is right
