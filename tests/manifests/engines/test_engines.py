"""The examples for Thanos, Mimir and VictoriaMetrics: what reads them takes them, and their limits suffice."""

import subprocess
from pathlib import Path

import pytest
import yaml

from dutycycle_alerter import config_file
from dutycycle_exporter import contract
from tests.prometheus.server import program

MANIFESTS = Path(__file__).parents[3] / "manifests"
ENGINES = MANIFESTS / "engines"
RULES = sorted((MANIFESTS / "prometheus").glob("*.rules.yaml"))
TARGET = ("job", "instance", "container", "endpoint", "prometheus", "prometheus_replica")
"""Labels that the operator's scrapes, shards and replicas add; `namespace` and `pod` are ours where we have them."""
SERIES_A_GPU = 104
"""As measured (benchmarks/RESULTS.md), each GPU with an owner."""
SERIES_OF_A_JOB = 41
"""Of these, those that end with the job."""
RECORDED = 8
"""What the recording rules add for a job on a GPU (docs/prometheus.md)."""
JOBS_IN_THE_HEAD = 3
"""Ended jobs of one hour whose series the head still has: it is cut after up to three hours."""


def limits():
    return yaml.safe_load((ENGINES / "mimir/limits.yaml").read_text())["overrides"]["gpus"]


@pytest.mark.parametrize("path", ["thanos/config.yaml", "mimir/config.yaml", "victoriametrics/alerter.yaml"])
def test_the_alerter_takes_its_configuration(path):
    settings = config_file.load(ENGINES / path)
    assert settings.prometheus.recorded
    assert settings.prometheus.scrape_interval == 15


def test_mimirs_limits_are_enough_for_the_fleet_that_they_are_said_to_be_for():
    fleet = 10_000
    series = SERIES_A_GPU + RECORDED + JOBS_IN_THE_HEAD * (SERIES_OF_A_JOB + RECORDED)
    assert limits()["max_global_series_per_user"] >= fleet * series
    assert limits()["ingestion_rate"] >= fleet * SERIES_A_GPU / 15 * 1.2


def test_no_series_of_ours_has_more_labels_than_mimir_takes():
    widest = max(len({*family.labels, *TARGET, "le", "__name__"}) for family in contract.FAMILIES.values())
    assert widest <= limits()["max_label_names_per_series"]


def test_no_group_of_ours_has_more_rules_than_mimir_takes():
    groups = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    assert max(len(group["rules"]) for group in groups) <= limits()["ruler_max_rules_per_rule_group"]


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_vmalert_takes_the_rules(path):
    done = subprocess.run([program("vmalert"), f"-rule={path}", "-dryRun"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_vmalert_refuses_a_rule_that_is_none(tmp_path):
    """What the test above would see."""
    path = tmp_path / "broken.rules.yaml"
    path.write_text("groups: [{name: a, rules: [{record: b, expr: 'sum('}]}]")
    done = subprocess.run([program("vmalert"), f"-rule={path}", "-dryRun"], capture_output=True, text=True, check=False)
    assert done.returncode != 0


def test_vmagent_takes_its_configuration():
    config = ENGINES / "victoriametrics/vmagent.yaml"
    command = [program("vmagent"), "-dryRun", "-promscrape.config.strictParse", f"-promscrape.config={config}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(job["honor_labels"] for job in yaml.safe_load(config.read_text())["scrape_configs"])
