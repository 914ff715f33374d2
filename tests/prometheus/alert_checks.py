"""Whether exactly those alerts fire that should, asked of promtool."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.prometheus.alert_scenarios import Fired
from tests.prometheus.saying import Series
from tests.prometheus.test_recording_rules import RULES as RECORDING
from tests.prometheus.test_recording_rules import promtool

RULES = RECORDING.with_name("dutycycle-alerts.rules.yaml")


def expected(fired: Fired, **labels: str) -> list[dict[str, object]]:
    """At each of the minutes exactly these alerts fire, with these labels, whatever the others."""
    with_them = "".join(f', {key}="{value}"' for key, value in labels.items())
    return [
        {
            "expr": f'group by ({", ".join(("alertname", *labels))}) (ALERTS{{alertstate="firing", severity!="none"}})',
            "eval_time": f"{minute}m",
            "exp_samples": [
                {"labels": f'{{alertname="Dutycycle{name}"{with_them}}}', "value": 1} for name in sorted(names)
            ],
        }
        for minute, names in fired.items()
    ]


def check(tmp_path: Path, series: Series, fired: Fired, *rules: Path) -> None:
    run(tmp_path, series, expected(fired), *rules)


def run(tmp_path: Path, series: Series, expected: list[dict[str, object]], *rules: Path) -> None:
    written(tmp_path, [{"interval": "1m", "input_series": inputs(series), "promql_expr_test": expected}], *rules)


def inputs(series: Series) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in series.items()]


def written(tmp_path: Path, tests: list[dict[str, object]], *rules: Path) -> None:
    path = tmp_path / "test.yaml"
    content = {"rule_files": [str(rule) for rule in rules], "evaluation_interval": "1m", "tests": tests}
    path.write_text(yaml.safe_dump(content))
    promtool("test", "rules", path)
