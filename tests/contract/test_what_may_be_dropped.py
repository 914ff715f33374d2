"""What docs/sizing.md says that may be dropped is what nothing of ours asks for."""

import re
from pathlib import Path

import yaml

from dutycycle_alerter.sources.metric_names import METRICS_READ
from dutycycle_exporter import contract

ROOT = Path(__file__).parents[2]
WORD = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def dropped():
    blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/sizing.md").read_text(), re.MULTILINE | re.DOTALL)
    [rules] = [found for block in blocks if (found := yaml.safe_load(block).get("metric_relabel_configs"))]
    [rule] = rules
    assert (rule["source_labels"], rule["action"]) == (["__name__"], "drop")
    return re.compile(rule["regex"])


def test_the_alerter_asks_for_none_of_it():
    assert [name for name in METRICS_READ if dropped().fullmatch(name)] == []


def test_no_board_rule_or_alert_asks_for_any_of_it():
    files = [*ROOT.glob("dashboards/json/*.json"), *ROOT.glob("manifests/prometheus/*.rules.yaml")]
    assert len(files) >= 8
    asked = {name for path in files for name in WORD.findall(path.read_text())}
    assert sorted(name for name in asked if dropped().fullmatch(name)) == []


def test_it_names_metrics_of_ours_one_by_one():
    names = dropped().pattern.split("|")
    assert [name for name in names if re.sub(r"_(count|sum)$", "", name) not in contract.FAMILIES] == []
