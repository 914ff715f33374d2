"""The past of a real Prometheus, judged as if it were now."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dutycycle_alerter.backtest.prometheus import read_alike
from dutycycle_alerter.cli import cli
from dutycycle_alerter.config_file import parse
from dutycycle_alerter.errors import SourceError
from tests.alerter.sources.prometheus.test_faults import Proxy, error, serving, where
from tests.prometheus.server import PrometheusServer

START = 1_790_000_040
"""A full minute, as scrapes every minute are."""
MINUTES = 90
EVERY = 60

JOBS = (("0", "GPU-a", "slurm/1", "ann", 0.0), ("1", "GPU-b", "slurm/2", "bob", 0.28))
"""GPU, UUID, workload, user, utilization."""


def samples() -> Iterator[tuple[str, str, list[tuple[int, float]]]]:
    """Kind of metric, series, samples."""
    times = [START + EVERY * n for n in range(MINUTES + 1)]
    for name in ("gpu_visible", "gpu_expected"):
        yield "gauge", f'{name}{{node="n1"}}', [(t, 2.0) for t in times]
    yield "gauge", 'dutycycle_exporter_time_scale{node="n1"}', [(t, 1.0) for t in times]
    for gpu, uuid, workload, user, utilization in JOBS:
        device = f'node="n1",gpu="{gpu}",gpu_uuid="{uuid}",mig=""'
        owner = (
            f'{device},cluster="",scheduler="slurm",workload="{workload}",namespace="",pod="",'
            f'job_id="{workload[-1]}",user="{user}",account="a",partition="p",model="H200"'
        )
        job = f'node="n1",cluster="",workload="{workload}"'
        yield "gauge", f'gpu_info{{{device},model="H200"}}', [(t, 1.0) for t in times]
        yield "gauge", f"gpu_allocation{{{owner}}}", [(t, 1.0) for t in times]
        for name in ("gpu_allocation_start_timestamp_seconds", "workload_first_process_timestamp_seconds"):
            yield "gauge", f"{name}{{{job}}}", [(t, float(START)) for t in times]
        for name, rate in (("allocated", 1.0), ("observed", 1.0), ("busy", utilization)):
            counted = [(t, rate * (t - START)) for t in times]
            yield "counter", f"workload_gpu_{name}_seconds_total{{{owner}}}", counted


def openmetrics() -> str:
    """All samples, family by family."""
    families: dict[str, list[str]] = {}
    for kind, series, values in samples():
        name = series.partition("{")[0]
        lines = families.setdefault(name, [f"# TYPE {name.removesuffix('_total')} {kind}"])
        lines += [f"{series} {value} {t}" for t, value in values]
    return "\n".join([*(line for lines in families.values() for line in lines), "# EOF\n"])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    with PrometheusServer(tmp_path_factory.mktemp("past"), openmetrics=openmetrics()) as server:
        yield server


@pytest.fixture
def new(prometheus: PrometheusServer, tmp_path: Path) -> Path:
    path = tmp_path / "new.yaml"
    path.write_text(
        f"prometheus: {{url: '{prometheus.url}', scrape_interval: 1m}}\n"
        "judging: {rules: {underused: {below: 0.30}}}\n"
    )
    return path


def run(*arguments: object) -> Result:
    given = ["backtest", *map(str, arguments), "--timezone", "UTC", "--json"]
    return CliRunner().invoke(cli, given, env={"DUTYCYCLE_CONFIG": None}, catch_exceptions=True)


def whole_range() -> list[str]:
    return ["--from", at(0), "--to", at(MINUTES)]


def at(minutes: int) -> str:
    from dutycycle_alerter.cli.moments import write_moment

    return write_moment(START + 60 * minutes)


def test_the_past_of_an_engine_is_judged_by_both_configurations(new: Path) -> None:
    done = run("--config", new, "--step", "10m", *whole_range())
    assert done.exit_code == 0, done.exception
    said = json.loads(done.stdout)
    assert (said["instants"], said["gaps"]) == (9, 0)
    assert said["current"]["jobs"] == 2
    assert [(row["rule"], row["incidents"]) for row in said["current"]["rules"]] == [("idle", 1)]
    assert [(one["user"], one["rule"], one["severity"]) for one in said["added"]] == [("bob", "underused", "warning")]
    assert (said["gone"], said["same"]) == ([], 1)
    # It opens 40 minutes in, with the half hour that it saw; the last minutes are not accounted for yet.
    (added,) = said["added"]
    assert added["opened"] == f"{at(40)[:-1]}.000Z"
    assert added["wasted_gpu_hours"] == pytest.approx(0.72 * 80 / 60, rel=0.15)
    assert added["resolved"] is None


def test_where_nothing_was_scraped_nothing_is_known_and_that_is_said(new: Path) -> None:
    done = run("--config", new, "--step", "20m", "--from", at(-60), "--to", at(20))
    assert json.loads(done.stdout)["gaps"] == 2
    assert "the engine knew nothing of our exporters at 2 of 4 instants" in done.stderr
    nothing = run("--config", new, "--step", "30m", "--from", at(-90), "--to", at(-30))
    assert isinstance(nothing.exception, SourceError)
    assert "the engine knows nothing of our exporters from" in str(nothing.exception)


def test_configurations_with_other_windows_each_have_their_evidence(new: Path, tmp_path: Path) -> None:
    (tmp_path / "current.yaml").write_text(
        "judging: {rules: {idle: {window: 2h}, underused: {window: 2h}}}\nkinds: [{kind: serving, user: bob}]\n"
    )
    said = json.loads(
        run("--config", new, "--against", tmp_path / "current.yaml", "--step", "20m", *whole_range()).stdout
    )
    assert (said["current"]["incidents"], said["new"]["incidents"]) == (0, 2)


@pytest.mark.parametrize(
    ("data", "alike"),
    [
        ({}, True),
        ({"judging": {"rules": {"idle": {"below": 0.01}}}}, True),
        ({"kinds": [{"kind": "interactive", "user": "x"}]}, True),
        ({"kinds": [{"kind": "serving", "user": "x"}]}, False),
        ({"judging": {"rules": {"underused": {"window": "2h"}}}}, False),
    ],
    ids=str,
)
def test_one_reading_serves_configurations_with_the_same_windows(data: dict[str, object], *, alike: bool) -> None:
    assert read_alike(parse(data), parse({})) is alike


def test_an_engine_needs_to_be_told_how_far_back(new: Path) -> None:
    done = run("--config", new)
    assert done.exit_code == 2
    assert "give --from, such as --from 7d" in done.stderr


@pytest.mark.parametrize("since", ["2190-01-01", "0s"])
def test_the_future_is_no_past(new: Path, since: str) -> None:
    done = run("--config", new, "--from", since)
    assert done.exit_code == 2
    assert "is not before --to" in " ".join(done.stderr.split())


def test_an_engine_that_does_not_answer_is_an_error_of_the_world(tmp_path: Path) -> None:
    (tmp_path / "dead.yaml").write_text("prometheus: {url: 'http://127.0.0.1:9', timeout: 2s}\n")
    done = run("--config", tmp_path / "dead.yaml", *whole_range())
    assert isinstance(done.exception, SourceError)
    assert not done.exception.usage
    assert done.stdout == ""


def test_a_ledger_that_cannot_be_read_is_no_ledger_without_waste(prometheus: PrometheusServer, tmp_path: Path) -> None:
    """An alerter would go on and catch up; what is over when a backtest ends has no later."""
    raw = where(":60000ms]", 500, error("internal", "no"))
    with serving(Proxy(prometheus.url, raw)) as url:
        (tmp_path / "new.yaml").write_text(f"prometheus: {{url: '{url}', scrape_interval: 1m}}\n")
        done = run("--config", tmp_path / "new.yaml", "--step", "10m", *whole_range())
    assert isinstance(done.exception, SourceError)
    assert "answered 500 internal: no" in str(done.exception)
    assert done.stdout == ""
