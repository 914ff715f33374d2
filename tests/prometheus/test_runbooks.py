"""Each alert has a runbook that says what to do, and what it asks Prometheus for is there."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.dashboards.answers.contract import metrics
from tests.dashboards.answers.names import names
from tests.prometheus.server import PrometheusServer
from tools.alert_rules import ALERTERS, ALERTS, CLUSTER, EXPORTERS, TARGETS

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "runbooks"
OTHERS = {
    # Prometheus' own.
    "up": frozenset(("job", "instance", "app_kubernetes_io_name")),
    "ALERTS": frozenset(("alertname", "alertstate", "severity", "job", "instance")),
    "ALERTS_FOR_STATE": frozenset(("alertname", "severity")),
    "prometheus_sd_file_mtime_seconds": frozenset(("job", "instance", "filename")),
    # kube-state-metrics'.
    "kube_pod_status_phase": frozenset(("namespace", "pod", "phase")),
    "kube_daemonset_status_desired_number_scheduled": frozenset(("namespace", "daemonset")),
    "kube_daemonset_status_current_number_scheduled": frozenset(("namespace", "daemonset")),
}
SECTIONS = ["Impact", "Check", "Do", "Silence"]


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text()


def asked() -> Iterator[tuple[str, str]]:
    """Every expression of the pages and the rules, with where it is."""
    for path in sorted(PAGES.glob("*.md")):
        for number, block in enumerate(re.findall(r"^ *```promql\n(.*?)^ *```", path.read_text(), re.M | re.S), 1):
            yield f"{path.stem}-{number}", block.strip()
    for name, alert in ALERTS.items():
        yield f"rule-{name}", alert.expr


ASKED = dict(asked())


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    with PrometheusServer(tmp_path_factory.mktemp("prometheus")) as server:
        yield server


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == {*ALERTS, "README"}
    assert all((ROOT / alert.runbook).is_file() for alert in ALERTS.values())


@pytest.mark.parametrize("name", ALERTS)
def test_a_page_says_what_to_do(name: str) -> None:
    text = page(name)
    assert text.startswith(f"# {name}\n")
    assert re.findall(r"^## (.*)$", text, re.M) == SECTIONS
    assert all(part.split("\n", 1)[1].strip() for part in text.split("\n## ")[1:])


def test_the_list_has_them_all_with_their_severity() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\) \| (\w+) \| .+ \|$", page("README"), re.M)
    assert rows == [(name, name, alert.severity) for name, alert in ALERTS.items()]


def test_the_list_names_the_jobs_that_the_rules_look_for() -> None:
    for pattern in (EXPORTERS, ALERTERS):
        assert f"`{pattern.removeprefix('.*').removesuffix('.*')}`" in page("README")


def test_our_examples_call_their_scrape_jobs_so() -> None:
    jobs = {
        name
        for path in (ROOT / "manifests").rglob("*.y*ml")
        for name in re.findall(r"^\s*-? ?job_name: (\S+)$", path.read_text(), re.M)
    }
    own = jobs - {"prometheus"}
    assert {bool(re.fullmatch(EXPORTERS, job)) + 2 * bool(re.fullmatch(ALERTERS, job)) for job in own} == {1, 2}


def test_our_example_for_slurm_scrapes_what_says_how_old_its_targets_are() -> None:
    """And the rule knows the file by its name."""
    config = yaml.safe_load((ROOT / "manifests/slurm/prometheus.yml").read_text())
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    assert jobs["prometheus"]["static_configs"] == [{"targets": ["127.0.0.1:9090"]}]
    files = [file for each in jobs["dutycycle-exporter"]["file_sd_configs"] for file in each["files"]]
    assert files
    assert all(re.fullmatch(f".*/({TARGETS})[.]json", file) for file in files)


@pytest.mark.parametrize("where", ASKED)
def test_it_asks_for_nothing_that_nobody_publishes(where: str) -> None:
    known = metrics() | OTHERS
    found = names(ASKED[where])
    assert [metric for metric, _ in found.selected if metric not in known] == []
    for metric, matched in found.selected:
        assert set(matched) <= known[metric] | {CLUSTER}, metric
    there = frozenset[str]().union(*(known[metric] for metric, _ in found.selected))
    assert found.grouped <= there | found.made | {CLUSTER}


@pytest.mark.parametrize("where", ASKED)
def test_prometheus_understands_it(where: str, prometheus: PrometheusServer) -> None:
    query = urllib.parse.urlencode({"query": ASKED[where]})
    try:
        with urllib.request.urlopen(f"{prometheus.url}/api/v1/query?{query}", timeout=30) as answer:
            assert json.load(answer)["status"] == "success"
    except urllib.error.HTTPError as error:
        pytest.fail(error.read().decode())


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        assert (PAGES / target).is_file(), target
