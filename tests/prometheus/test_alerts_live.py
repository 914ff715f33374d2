"""The alerts over a real exporter and a real alerter, by a real Prometheus: only the waits are shortened."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.e2e.site import Alerter, Exporter
from tests.exporter.daemon import eventually
from tests.fakes.node import FakeNode
from tests.fakes.nvml import Libraries
from tests.prometheus.server import PrometheusServer
from tools import alert_rules

WAIT = "2s"
SCALE = 20
"""A pass is made each three seconds."""


def shortened(directory: Path) -> Path:
    content = yaml.safe_load(alert_rules.plain())
    for group in content["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = WAIT
    path = directory / "alerts.rules.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


class Site:
    """One node, whose exporter tells of a GPU that NVML does not show, an alerter, and a Prometheus over both."""

    def __init__(self, directory: Path, node: FakeNode) -> None:
        self.exporter = Exporter(node, directory, SCALE)
        self.alerter = Alerter([self.exporter.url], directory, SCALE)
        self.targets = [f"127.0.0.1:{self.exporter.port}", self.alerter.addresses.health]
        # The job is called `dutycycle`: by that alone nobody knows which of the two a target is.
        self.prometheus = PrometheusServer(directory / "prometheus", targets=self.targets, rules=[shortened(directory)])

    def alerts(self, state: str) -> dict[str, dict[str, str]]:
        """Labels of those in a state, by name."""
        with urllib.request.urlopen(f"{self.prometheus.url}/api/v1/alerts", timeout=30) as answer:
            found = json.load(answer)["data"]["alerts"]
        return {alert["labels"]["alertname"]: alert["labels"] for alert in found if alert["state"] == state}

    def firing(self) -> set[str]:
        return set(self.alerts("firing"))


@pytest.fixture
def site(tmp_path: Path, nvml_libraries: Libraries) -> Iterator[Site]:
    with ExitStack() as stack:
        node = stack.enter_context(FakeNode(tmp_path / "node", nvml_libraries, name="gpu7", gpus=2, time_scale=SCALE))
        node.pci.add("0000:f1:00.0")
        node.start()
        found = Site(tmp_path, node)
        for process in (found.exporter, found.alerter):
            stack.callback(process.stop)
            process.start()
        stack.enter_context(found.prometheus)
        yield found


@pytest.mark.timeout(300)
def test_what_is_wrong_fires_and_ends(site: Site) -> None:
    # The alerter has passed, the exporter sampled: all that is left is what really is wrong, and what always fires.
    settled = {"DutycycleGpuLost", "DutycycleWatchdog"}
    eventually(lambda: site.firing() == settled and not site.alerts("pending"), "all else is well")
    assert site.alerts("firing")["DutycycleGpuLost"]["node"] == "gpu7"

    site.exporter.kill()
    eventually(lambda: "DutycycleExporterDown" in site.alerts("pending"), "it is noticed")
    eventually(lambda: {"DutycycleExporterDown", "DutycycleNoExporters"} <= site.firing(), "its absence is told")
    assert site.alerts("firing")["DutycycleExporterDown"]["instance"] == site.targets[0]
    # The alerter asks it itself.
    eventually(lambda: "DutycycleSourceSilent" in site.firing(), "and that the alerter misses it")
    assert "DutycycleGpuLost" not in site.firing()

    site.exporter.start()
    eventually(lambda: site.firing() == settled, "all is well again")

    site.alerter.kill()
    eventually(lambda: {"DutycycleAlerterDown", "DutycycleNotEvaluating"} <= site.firing(), "nobody evaluates")
    assert site.alerts("firing")["DutycycleAlerterDown"]["instance"] == site.targets[1]
    assert "DutycycleExporterDown" not in site.firing()

    site.alerter.start()
    eventually(lambda: site.firing() == settled, "somebody does")
