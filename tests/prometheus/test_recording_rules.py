"""The recording rules, by promtool: they are well formed, and their copies lose nothing of what the counters say."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dutycycle_alerter.sources.prometheus.recorded import COPIED, LABELS, copy_of
from dutycycle_dashboards import recording
from dutycycle_exporter import contract
from tests.prometheus.server import program
from tools import recording_rules

RULES = Path(__file__).parents[2] / "manifests" / "prometheus" / "dutycycle-recording.rules.yaml"
BUSY = "workload_gpu_busy_seconds_total"
COPY = copy_of(BUSY)


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run(
        [program("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def test_they_are_well_formed() -> None:
    assert f"{len(COPIED) + len(recording.recorded())} rules found" in promtool("check", "rules", RULES)


def test_the_operators_form_holds_the_same_groups() -> None:
    rule = yaml.safe_load(recording_rules.prometheus_rule())
    assert (rule["apiVersion"], rule["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert rule["spec"] == yaml.safe_load(RULES.read_text())
    assert rule["metadata"]["labels"]


@pytest.mark.parametrize("metric", COPIED)
def test_what_is_copied_is_published_with_the_labels_that_are_kept(metric: str) -> None:
    family = contract.FAMILIES[metric]
    assert family.kind == "counter"
    assert set(LABELS) <= set(family.labels)


def series(values: str, job: str = "slurm/1", **target: str) -> dict[str, str]:
    labels = {"node": "n1", "gpu_uuid": "GPU-1", "workload": job, "user": "alice", "instance": "n1:9836"} | target
    return {"series": f"{BUSY}{{{','.join(f'{k}={v!r}' for k, v in labels.items())}}}", "values": values}


# Scrapes each 15 s; copies at every full minute. `at` are minutes.
CASES: dict[str, tuple[list[dict[str, str]], dict[int, list[float]]]] = {
    "a counter that goes on": ([series("0+15x80")], {1: [60], 2: [120], 20: [1200]}),
    # Held at 0 for two scrapes, between two copies; then it shows what accumulated.
    "a new series begins at its lowest": ([series("_x41 0 0 30+15x40")], {10: [], 11: [0], 12: [105], 13: [165]}),
    "so does one that is scraped at the full minute": ([series("_x40 0 0 30+15x40")], {10: [0], 11: [60], 12: [120]}),
    "an ended series arrives whole, and ends": ([series("0+15x78 stale")], {19: [1140], 20: [1170], 21: []}),
    "a reset is a drop": ([series("0+15x38 0+15x41")], {9: [540], 10: [15], 11: [75]}),
    # 19 samples missing: what comes back is no new series that would have to begin at 0.
    "a gap is a gap": ([series("0+15x40 _x19 900+15x20")], {10: [600], 12: [], 14: [], 15: [900], 16: [960]}),
    "a replaced pod of the exporter goes on with the same copy": (
        [series("0+15x40 stale"), series("_x41 0+15x40", instance="other:9836")],
        {10: [600], 12: [105], 13: [165]},
    ),
    "two replicas are one": ([series("0+15x40"), series("0+15x40", replica="b")], {5: [300]}),
    "jobs stay apart": ([series("0+15x40"), series("0+30x40", "slurm/2")], {5: [300, 600]}),
}


@pytest.mark.parametrize("case", CASES)
def test_copies_are_what_the_counters_say(case: str, tmp_path: Path) -> None:
    inputs, minutes = CASES[case]
    expected: list[dict[str, Any]] = [
        {
            "expr": f"sort(sum by (workload) ({COPY}))",
            "eval_time": f"{minute}m",
            "exp_samples": [
                {"labels": f'{{workload="slurm/{place + 1}"}}', "value": value} for place, value in enumerate(values)
            ],
        }
        for minute, values in minutes.items()
    ]
    run(tmp_path, inputs, expected)


def test_growth_over_the_copies_is_that_of_the_counters(tmp_path: Path) -> None:
    """A job in whose life the exporter restarts: what grew since the minute before that is lost, here 45 s of 1770."""
    inputs = [series("_x41 0 0 30+15x56 0+15x60 stale")]
    grown = f"({COPY} @ 1440 - {COPY} @ 660) + {COPY} @ 2460"
    expected = [
        {"expr": grown, "eval_time": "45m", "exp_samples": [sample(1725)]},
        {"expr": f"resets({COPY}[45m])", "eval_time": "45m", "exp_samples": [sample(1)]},
        # An hour's increase, which Prometheus extrapolates by at most a copy at either end.
        {
            "expr": f"abs(increase({COPY}[1h]) - 1725) < bool 60",
            "eval_time": "60m",
            "exp_samples": [sample(1)],
        },
    ]
    run(tmp_path, inputs, expected)


def sample(value: float) -> dict[str, Any]:
    return {"labels": '{gpu_uuid="GPU-1", node="n1", user="alice", workload="slurm/1"}', "value": value}


def run(tmp_path: Path, inputs: list[dict[str, str]], expected: list[dict[str, Any]]) -> None:
    test = {"interval": "15s", "input_series": inputs, "promql_expr_test": expected}
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    promtool("test", "rules", path)
