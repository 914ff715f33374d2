"""The shipped recording rules at another pace: every duration is divided, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from benchmarks.real.pace import scaled, scaled_rules
from tests.prometheus.evaluated import RULES


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "sum_over_time(user:busy:increase5m[15m] offset 1m)",
            "sum_over_time(user:busy:increase5m[15000ms] offset 1000ms)",
        ),
        ("x[59m59s999ms] * 300 > 1e-9", "x[60000ms] * 300 > 1e-9"),
        ('label_replace(x, "part", "reset0m", "", "")', 'label_replace(x, "part", "reset0m", "", "")'),
        ("5m", "5000ms"),
    ],
)
def test_durations_are_divided(text: str, found: str) -> None:
    assert scaled(text, 60) == found


def test_the_rules_are_the_shipped_ones(tmp_path: Path) -> None:
    shipped = {
        rule["record"]: rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    }
    groups = yaml.safe_load(scaled_rules(tmp_path / "rules.yaml", 60).read_text())["groups"]
    assert groups
    durations = re.compile(r"(?<![\w.])(\d+(ms|[smhd]))+(?!\w)")
    for group in groups:
        for rule in group["rules"]:
            assert durations.sub("T", rule["expr"]) == durations.sub("T", shipped[rule["record"]])
