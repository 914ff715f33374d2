"""When an allocated GPU counts as idle, and for how long, by Prometheus' own engine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dutycycle_dashboards.boards import owned
from tests.prometheus.server import program

NOW = 10_000
"""Seconds; samples are each 100 s."""
ONES = "1+0x100"

CASES: dict[str, tuple[dict[str, str], list[tuple[str, float]]]] = {
    "since its last busy sample": ({"start": "1000", "last": "7000"}, [("one", 3000)]),
    "not longer than it has been allocated": ({"start": "8000", "last": "7000"}, [("one", 2000)]),
    "not while it is busy": ({"start": "1000", "last": "9990"}, []),
    "not after a short pause": ({"start": "1000", "last": "9500"}, []),
    "never busy since its exporter began": ({"start": "1000", "measured": "_x60 0+100x40"}, [("one", 4000)]),
    "never busy, and allocated later than that": ({"start": "7000", "measured": "_x10 0+100x90"}, [("one", 3000)]),
    "not where nothing can be measured": ({"start": "1000", "measured": "0+0x100"}, []),
    "not where nothing is known": ({"start": "1000"}, []),
    "not where nobody holds it": ({"last": "1000"}, []),
    "not once its samples cannot be read any more": ({"start": "1000", "last": "7000", "measured": "7000+0x100"}, []),
    "not just after it was away": ({"start": "1000", "last": "7000", "measured": "7000+100x75 _x20 100+100x10"}, []),
    "since its last busy sample, once it was back for long enough": (
        {"start": "1000", "last": "7000", "measured": "7000+100x70 _x15 100+100x20"},
        [("one", 3000)],
    ),
    "of two on a GPU each from when it came": (
        {"start": "1000", "other": "9000", "last": "7000"},
        [("one", 3000), ("two", 1000)],
    ),
}


def given(values: dict[str, str]) -> list[dict[str, str]]:
    """Series of one GPU, which is measured all the time unless said; `other` is when a second workload came."""
    device = 'node="n", gpu="0", gpu_uuid="G", mig=""'
    found = {}
    for workload, start in (("one", values.get("start")), ("two", values.get("other"))):
        if start is not None:
            labels = f'{{{device}, workload="{workload}", user="u"}}'
            found[f"gpu_allocation{labels}"] = ONES
            found[f"gpu_allocation_start_timestamp_seconds{labels}"] = f"{start}+0x100"
    if "last" in values:
        found[f"gpu_last_busy_timestamp_seconds{{{device}}}"] = f"{values['last']}+0x100"
    if "last" in values or "measured" in values:
        # What the GPU was measured for must not count once it has been busy.
        found[f"gpu_observed_seconds_total{{{device}}}"] = values.get("measured", "1000+100x100")
    return [{"series": series, "values": samples} for series, samples in found.items()]


@pytest.mark.parametrize("case", CASES)
def test_a_gpu_is_idle(case: str, tmp_path: Path) -> None:
    values, expected = CASES[case]
    device = 'node="n", gpu="0", gpu_uuid="G"'
    rows = [{"labels": f'{{{device}, workload="{name}", user="u"}}', "value": seconds} for name, seconds in expected]
    told(tmp_path, values, owned.idle_for(()), rows)


@pytest.mark.parametrize("case", CASES)
def test_an_idle_gpu_counts_once_whoever_shares_it(case: str, tmp_path: Path) -> None:
    values, expected = CASES[case]
    number = [{"labels": "{}", "value": 1 if expected else 0}] if "start" in values else []
    told(tmp_path, values, owned.idle_devices(()), number)


def told(tmp_path: Path, values: dict[str, str], expr: str, rows: list[dict[str, Any]]) -> None:
    asked = {"expr": expr, "eval_time": f"{NOW}s", "exp_samples": rows}
    group = {"interval": "100s", "input_series": given(values), "promql_expr_test": [asked]}
    path = tmp_path / "idle.json"
    path.write_text(json.dumps({"evaluation_interval": "100s", "tests": [group]}))
    done = subprocess.run(
        [program("promtool"), "test", "rules", path], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
