"""`dutycycle analyze` as it is used: what it prints where, what it writes, and how it ends."""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dutycycle_alerter.cli import cli
from dutycycle_alerter.errors import ConfigError, RecordingError
from dutycycle_alerter.recordings.writing import RecordingWriter
from tests.alerter.recordings.rows import steady

KEYS = {
    "rows", "workloads", "users", "gpu_hours", "mean_utilization_percent", "wasted_gpu_hours", "time_at_zero_ratio",
    "users_under_15", "users_histogram", "skipped_lines", "findings",
}  # fmt: skip
FINDING_KEYS = {
    "workload", "user", "rule", "severity", "start", "end", "gpus", "cause", "evidence", "wasted_gpu_hours", "advice",
}  # fmt: skip
SMI = """\
timestamp, name, utilization.gpu [%], utilization.memory [%], memory.used [MiB], memory.free [MiB], memory.used [MiB]
2023/03/14 07:52:06.453, NVIDIA GeForce RTX 3080 Ti, 82 %, 57 %, 5959 MiB, 6148 MiB, 5959 MiB
2023/03/14 07:52:11.453, NVIDIA GeForce RTX 3080 Ti, 0 %, 0 %, 5959 MiB, 6148 MiB, 5959 MiB
2023/03/14 07:52:16.4
"""


def written(path: Path, *rows) -> Path:
    with RecordingWriter(path) as writer:
        writer.write({"node": "n1", "gpu": "0", "workload": "job", "user": "ann"} | row for row in rows)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["analyze", *map(str, arguments)])


@pytest.fixture
def idle(tmp_path) -> Path:
    return written(tmp_path / "idle.csv.gz", *steady(0.0, 60, processes=0.0))


def test_json_is_one_object_with_the_promised_keys(idle):
    done = run("--json", idle)
    assert done.exit_code == 0
    said = json.loads(done.stdout)
    assert set(said) >= KEYS
    assert (said["rows"], said["workloads"], said["users"], said["skipped_lines"]) == (360, 1, 1, 0)
    assert said["gpu_hours"] == pytest.approx(1.0)
    assert said["mean_utilization_percent"] == 0
    assert said["time_at_zero_ratio"] == 1
    assert said["users_histogram"] == [1, *[0] * 19]
    (finding,) = said["findings"]
    assert set(finding) >= FINDING_KEYS
    assert (finding["workload"], finding["user"], finding["rule"]) == ("job", "ann", "idle")
    assert (finding["severity"], finding["cause"]) == ("warning", "no process")
    assert finding["start"] == "2023-11-14T22:23:20.000Z"
    assert finding["end"] == "2023-11-14T23:13:20.000Z"
    assert finding["gpus"] == [{"node": "n1", "index": "0", "uuid": "", "mig": "", "model": ""}]
    assert finding["wasted_gpu_hours"] == pytest.approx(3000 / 3600, abs=1e-5)
    assert finding["evidence"]
    assert finding["advice"]


def test_without_measurements_json_says_null_not_zero(tmp_path):
    path = written(tmp_path / "a.csv", *steady(None, 30, user="bob", workload="other"), *steady(0.0, 60))
    said = json.loads(run("--json", path).stdout)
    known, unknown = said["users_table"]
    assert (known["user"], known["mean_utilization_percent"]) == ("ann", 0)
    assert (unknown["user"], unknown["mean_utilization_percent"]) == ("bob", None)
    assert (said["energy_kwh"], said["findings"][0]["energy_kwh"]) == (None, None)


def test_people_get_figures_users_histogram_findings_and_advice(idle):
    done = run(idle)
    assert done.exit_code == 0
    for expected in ("360 rows of 1 job on 1 GPU", "Mean utilization", "ann", "1 of 1 under 15 %", "The GPU is idle",
                     "no process", "What to do", "sbatch --dependency"):  # fmt: skip
        assert expected in done.stdout


def test_an_nvidia_smi_log_is_analysed_and_its_cut_line_named_on_stderr(tmp_path):
    (tmp_path / "gpu.csv").write_text(SMI)
    done = run("--json", "--timezone", "UTC", "--user", "ann", tmp_path / "gpu.csv")
    assert done.exit_code == 0
    said = json.loads(done.stdout)
    assert (said["rows"], said["users"], said["skipped_lines"]) == (2, 1, 1)
    assert said["mean_utilization_percent"] == pytest.approx(41)
    assert said["start"] == "2023-03-14T07:52:06.453Z"
    assert "a log of nvidia-smi; its GPU is judged as one job, gpu" in done.stderr
    assert "gpu.csv:4: 1 fields, expected 7" in done.stderr


def test_many_bad_lines_are_named_first_and_then_counted(tmp_path):
    path = written(tmp_path / "a.csv", *steady(0.5, 10))
    with path.open("a") as file:
        file.write("bad\n" * 100)
    done = run("--json", path)
    assert done.exit_code == 0
    assert json.loads(done.stdout)["skipped_lines"] == 100
    assert done.stderr.count("a.csv:") == 5
    assert "and 95 more lines that could not be read" in done.stderr


def said_of(*arguments: object) -> str:
    return " ".join(run(*arguments).stdout.split())


def test_rules_for_which_a_log_is_too_short_are_named_with_what_they_need(tmp_path):
    said = said_of(written(tmp_path / "a.csv", *steady(0.0, 35)))
    assert "Findings none; 1 of 1 job could be judged, by some rules only; most" in said
    needed = "they need 40 min of it (10 min of grace and a window of 30 min), the log has 35 min of it"
    assert f"idle, low sm activity, underused cannot be judged for 1 job: {needed}" in said
    assert "hung, " not in said

    said = said_of(written(tmp_path / "b.csv", *steady(0.0, 20)))
    assert "Findings none; 0 of 1 job could be judged; most" in said
    assert "hung, stalled cannot be judged for 1 job: they need 25 min of it (10 min of grace and a window" in said


def test_a_log_that_is_hardly_too_short_is_not_said_to_be_as_long_as_is_needed(tmp_path):
    said = said_of(written(tmp_path / "a.csv", *steady(0.0, 39.5)))
    assert "they need 40 min of it (10 min of grace and a window of 30 min), the log has 30 s less" in said


def test_of_several_jobs_what_each_needs_and_what_there_is_of_the_longest_are_said(tmp_path):
    shell = steady(0.0, 50, workload="shell", gpu="1", user="bob")
    whole = steady(0.5, 60, workload="whole", gpu="2")
    path = written(tmp_path / "a.csv", *steady(0.0, 35), *shell, *whole)
    (tmp_path / "c.yaml").write_text("kinds: [{kind: interactive, user: bob}]\n")
    said = said_of("--config", tmp_path / "c.yaml", path)
    assert "2 of 3 jobs could be judged, 1 of them by some rules only; most" in said
    needed = "they need 40 min to 1 h 30 min of each (grace and a window of 30 min)"
    assert f"cannot be judged for 2 jobs: {needed}, the log has 50 min of the longest" in said


def test_where_rules_look_late_all_that_comes_before_is_not_called_grace(tmp_path):
    """A process came after a quarter of an hour, and grace begins with it."""
    rows = steady(0.0, 45)
    for i, row in enumerate(rows):
        row["processes"] = 0.0 if i < 90 else 1.0
    assert "they need 55 min of it (grace and a window of 30 min), the log has 45 min" in said_of(
        written(tmp_path / "a.csv", *rows)
    )


def test_the_rules_wait_for_nothing_in_a_log_that_is_long_enough(tmp_path):
    path = written(tmp_path / "a.csv", *steady(0.5, 40))
    assert "they need" not in said_of(path)
    said = json.loads(run("--json", path).stdout)
    assert (said["jobs_judged"], said["jobs_judged_partly"], said["too_short"]) == (1, 0, [])


def test_json_has_what_the_rules_need(tmp_path):
    path = written(tmp_path / "a.csv", *steady(0.0, 35), *steady(0.0, 5, workload="other", gpu="1"))
    said = json.loads(run("--json", path).stdout)
    assert (said["jobs_judged"], said["jobs_judged_partly"]) == (1, 1)
    assert said["too_short"] == [
        {
            "rules": ["hung", "stalled"],
            "jobs": 1,
            "needed_seconds": 1500,
            "window_seconds": 900,
            "longest_seconds": 300,
        },
        {
            "rules": ["idle", "low_sm_activity", "underused"],
            "jobs": 2,
            "needed_seconds": 2400,
            "window_seconds": 1800,
            "longest_seconds": 2100,
        },
    ]


def test_several_files_are_one_fleet(tmp_path, idle):
    other = written(tmp_path / "b.csv", *steady(1.0, 60, workload="other", user="bob", node="n2"))
    said = json.loads(run("--json", idle, other).stdout)
    assert (said["workloads"], said["users"], said["gpus"]) == (2, 2, 2)
    assert said["mean_utilization_percent"] == pytest.approx(50)


def test_the_configuration_is_used(tmp_path, idle):
    (tmp_path / "c.yaml").write_text("judging: {rules: {idle: {enabled: false}, underused: {enabled: false}}}\n")
    assert json.loads(run("--json", "--config", tmp_path / "c.yaml", idle).stdout)["findings"] == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "Missing argument 'FILE...'"),
        (["--timezone", "Europe/Olso", "x"], "did you mean Europe/Oslo?"),
        (["--timezone", "../../etc/passwd", "x"], "is not a time zone"),
        (["--limit", "0", "x"], "--limit"),
        (["--nonsense", "x"], "No such option"),
    ],
)
def test_wrong_usage_ends_with_2(arguments, why):
    done = run(*arguments)
    assert done.exit_code == 2
    assert why in done.stderr


@pytest.mark.parametrize("content", [None, "", "hello\n", "t,node,gpu,utilisation_ratio\n", "0, 82 %\n"])
def test_an_unreadable_file_ends_with_2(tmp_path, content):
    path = tmp_path / "a.csv"
    if content is not None:
        path.write_text(content)
    command = [sys.executable, "-c", "from dutycycle_alerter.cli import main; main()", "analyze", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"dutycycle: {path}: ")
    assert "Traceback" not in done.stderr


def test_unreadable_input_is_an_error_of_usage(tmp_path):
    assert RecordingError.usage
    assert ConfigError.usage
    assert isinstance(run(tmp_path / "nowhere").exception, RecordingError)


@pytest.mark.parametrize("option", ["--html", "--png"])
def test_an_output_that_cannot_be_written_ends_with_2(tmp_path, idle, option):
    done = run(option, tmp_path / "nowhere" / "out", idle)
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr


def test_the_command_is_listed_and_has_help():
    done = CliRunner().invoke(cli, ["analyze", "--help"])
    assert done.exit_code == 0
    assert "nvidia-smi --query-gpu=" in done.stdout


def test_no_progress_bar_outside_a_terminal(idle):
    assert run("--json", idle).stderr == ""


def test_hostile_names_reach_the_terminal_as_text(tmp_path):
    path = written(
        tmp_path / "a.csv", *steady(0.0, 60, user="[red]eve\u202e", workload="[link=x]\u200bjob", node="[b]")
    )
    done = run(path)
    assert done.exit_code == 0
    assert "[red]eve\ufffd" in done.stdout
    assert "[link=x]\ufffdjob" in done.stdout


class Page(HTMLParser):
    """What a browser would fetch, and the text and elements it would show."""

    VOID = ("meta", "link", "rect", "path", "line", "circle", "br", "img")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.text: list[str] = []
        self.tags: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        names = dict(attrs)
        self.fetched += [names[name] for name in ("src", "href", "srcset", "data") if names.get(name)]
        assert not any(name.startswith("on") for name in names)

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_self_contained_and_says_everything(tmp_path, idle):
    done = run("--html", tmp_path / "out.html", idle)
    assert done.exit_code == 0
    html = (tmp_path / "out.html").read_text()
    page = Page(html)
    text = " ".join(" ".join(page.text).split())
    assert set(page.fetched) <= {"#main"}
    assert "@import" not in html
    assert "url(" not in html
    assert "script" not in page.tags
    for expected in ("The GPU is idle", "no process", "ann", "1 of 1", "14 Nov 2023", "No process has held a GPU"):
        assert expected in text
    assert "svg" in page.tags


def test_the_page_shows_hostile_names_as_text(tmp_path):
    hostile = "<script>alert(1)</script>\"'&"
    path = written(tmp_path / "a.csv", *steady(0.0, 60, user=hostile, workload=hostile, node=hostile, gpu=hostile))
    assert run("--html", tmp_path / "out.html", path).exit_code == 0
    html = (tmp_path / "out.html").read_text()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_the_page_names_the_rules_for_which_a_log_is_too_short(tmp_path):
    run("--html", tmp_path / "out.html", written(tmp_path / "a.csv", *steady(0.0, 35)))
    said = " ".join(" ".join(Page((tmp_path / "out.html").read_text()).text).split())
    assert "1 of 1 job could be judged, by some rules only. Most wasted GPU-hours first." in said
    assert "Idle, low sm activity, underused cannot be judged for 1 job: they need 40 min of it" in said
    assert "the log has 35 min of it." in said


def test_the_page_names_lines_that_could_not_be_read(tmp_path):
    path = written(tmp_path / "a.csv", *steady(0.5, 10))
    with path.open("a") as file:
        file.write("<b>bad</b>,\n")
    run("--html", tmp_path / "out.html", path)
    assert "a.csv:62: 2 cells, the header has" in (tmp_path / "out.html").read_text()


def test_a_file_without_a_readable_row_is_refused_with_the_reason(tmp_path):
    (tmp_path / "a.csv").write_text("timestamp, utilization.gpu [%]\nyesterday, 5 %\n")
    refused = run("--html", tmp_path / "out.html", tmp_path / "a.csv").exception
    assert isinstance(refused, RecordingError)
    assert "no row could be read" in str(refused)
    assert "a.csv:2: 'yesterday' is not a time as nvidia-smi writes it" in str(refused)
    assert not (tmp_path / "out.html").exists()


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (["07:52:06.453, 0, [N/A]", "07:52:11.453, 0, [N/A]"], "no row has a utilization: nvidia-smi gives none"),
        (["07:52:06.453, 0, 5 %", "07:52:06.455, 1, 5 %"], "each GPU has a row at one time only"),
    ],
)
def test_a_log_without_any_measured_time_is_refused_with_the_reason(tmp_path, rows, why):
    lines = ["timestamp, index, utilization.gpu [%]", *(f"2023/03/14 {row}" for row in rows)]
    (tmp_path / "a.csv").write_text("\n".join([*lines, ""]))
    done = run(tmp_path / "a.csv")
    assert isinstance(done.exception, RecordingError)
    assert why in str(done.exception)
    assert done.stdout == ""


def test_an_incident_does_not_start_while_nothing_was_logged(tmp_path):
    """90 % each second for 10 minutes, nothing for 50, then 0 % each minute: a first row stands for 90 s at most."""
    began = 1_700_000_000.0
    rows = [{"t": began + i, "utilization_ratio": 0.9} for i in range(600)]
    rows += [{"t": began + 3600 + 60 * i, "utilization_ratio": 0.0} for i in range(180)]
    (finding,) = json.loads(run("--json", written(tmp_path / "a.csv", *rows)).stdout)["findings"]
    assert finding["rule"] == "idle"
    assert finding["start"] == "2023-11-14T23:11:50.000Z"
    assert finding["wasted_gpu_hours"] == pytest.approx((90 + 179 * 60) / 3600, abs=1e-5)


def test_a_page_of_nothing_is_a_page(tmp_path):
    path = written(tmp_path / "a.csv", *steady(0.9, 60))
    assert run("--html", tmp_path / "out.html", "--png", tmp_path / "out.png", path).exit_code == 0
    assert "Nothing was found" in (tmp_path / "out.html").read_text()
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_costs_are_shown_where_they_are_configured(tmp_path, idle):
    (tmp_path / "c.yaml").write_text("costs: {gpu_hour: 2, currency: EUR}\n")
    run("--config", tmp_path / "c.yaml", "--html", tmp_path / "out.html", idle)
    assert "2.00 EUR" in (tmp_path / "out.html").read_text()


def test_real_runs_give_every_output_at_once(tmp_path, real_runs):
    done = run("--json", "--html", tmp_path / "out.html", "--png", tmp_path / "out.png", real_runs)
    assert done.exit_code == 0
    said = json.loads(done.stdout)
    assert (said["rows"], said["users"], said["workloads"]) == (159_990, 19, 359)
    assert said["users_histogram"] == [2, 1, 1, 1, 1, 1, 2, 0, 1, 1, 1, 3, 1, 1, 0, 0, 0, 0, 0, 2]
    assert "159,990 rows" in (tmp_path / "out.html").read_text()
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


# The command in a process of its own below this small one: a process's peak includes what it was forked from.
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def test_real_runs_are_analyzed_in_half_a_gigabyte(tmp_path, real_runs):
    command = [Path(sys.executable).with_name("dutycycle"), "analyze", "--json", "--html", tmp_path / "out.html"]
    measured = [sys.executable, "-c", PEAK, *command, "--png", tmp_path / "out.png", real_runs]
    done = subprocess.run([str(part) for part in measured], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 500e6
    assert (tmp_path / "out.png").exists()


def test_times_are_shown_in_the_zone_that_is_asked_for(tmp_path, idle):
    assert "14 Nov 2023, 22:23" in run("--timezone", "UTC", idle).stdout
    assert "15 Nov 2023, 07:23" in run("--timezone", "Asia/Tokyo", idle).stdout
