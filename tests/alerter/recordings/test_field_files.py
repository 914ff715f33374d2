"""Files that users reported as misread: each is read right as a whole, or refused with what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dutycycle_alerter.cli import cli
from dutycycle_alerter.errors import RecordingError
from tests.required import lacking

FIELD = Path(__file__).parents[3] / "../shared/data/field"


def analyzed(name: str) -> Result:
    if not FIELD.exists():
        lacking("logs of users beside the repository (../shared/data/field)")
    return CliRunner().invoke(cli, ["analyze", "--json", str(FIELD / name)])


@pytest.mark.parametrize(
    ("name", "hours", "mean", "found"),
    [
        ("analyze-two-intervals.csv", 10.0, 1.5, [("idle", 9.8)]),
        ("analyze-gpu-and-apps.csv", 1.0, 50.0, []),
        ("analyze-decimal-comma.csv", 0.5, 90.0, []),
        ("analyze-iso-time.csv", 0.5, 55.0, []),
    ],
)
def test_it_is_read(name: str, hours: float, mean: float, found: list[tuple[str, float]]) -> None:
    result = analyzed(name)
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["gpu_hours"] == pytest.approx(hours, rel=0.002)
    assert answer["mean_utilization_percent"] == pytest.approx(mean, abs=0.05)
    findings = [(one["rule"], one["wasted_gpu_hours"]) for one in answer["findings"]]
    assert findings == [(rule, pytest.approx(wasted, abs=0.1)) for rule, wasted in found]


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("analyze-two-nodes-index.csv", "add uuid to --query-gpu"),
        ("analyze-dmon.txt", "`nvidia-smi dmon`, which is not read: record with nvidia-smi --query-gpu="),
        ("analyze-compute-apps.csv", "--query-compute-apps`, which is not read: record with nvidia-smi --query-gpu="),
    ],
)
def test_it_is_refused_with_the_remedy(name: str, named: str) -> None:
    result = analyzed(name)
    assert isinstance(result.exception, RecordingError)
    assert result.stdout == ""
    assert named in str(result.exception)
