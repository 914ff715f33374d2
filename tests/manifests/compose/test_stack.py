"""The demonstration really runs: what a recording has wrong becomes an alert, and dashboards have something to show."""

from __future__ import annotations

import json
import os
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dutycycle_dashboards.render import dashboards
from tests.e2e.site import wait_for
from tests.exporter.daemon import eventually
from tests.fakes.alertmanager import _TEMPLATES as TEMPLATES
from tests.images.fixtures import TIMEOUT
from tests.images.image import Image as Built
from tests.manifests.compose.composed import services
from tests.manifests.compose.stack import Image, Stack
from tests.prometheus.server import program
from tests.required import lacking

NOBODY = (65534, 65534)
"""Whom the images of Prometheus and Alertmanager run as."""


def built(image: Built) -> Image:
    return Image(image.root, image.env, image.user, image.workdir, image.entrypoint, image.cmd, {})


def stand_in(root: Path, name: str, *, home: str, given: dict[str, Path]) -> Image:
    """Of Prometheus' projects' images all look alike: one program, a directory of its own, nobody."""
    files = {f"/usr/bin/{name}": Path(program("prometheus-alertmanager" if name == "alertmanager" else name)), **given}
    path = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    return Image(root, path, NOBODY, home, (f"/bin/{name}",), (), files)


@pytest.fixture
def stack(tmp_path: Path, exporter_image: Built, alerter_image: Built) -> Iterator[Stack]:
    if os.geteuid() != 0:
        lacking("root")
    if not TEMPLATES.exists():
        lacking(f"{TEMPLATES}, which Debian's Alertmanager reads,")
    wanted = {name: service for name, service in services("demo").items() if name != "grafana"}
    templates = {f"{TEMPLATES.parent}": TEMPLATES.parent}
    images = {
        "alerter": built(alerter_image),
        "prometheus": stand_in(exporter_image.root, "prometheus", home="/prometheus", given={}),
        "alertmanager": stand_in(exporter_image.root, "alertmanager", home="/alertmanager", given=templates),
        **{name: built(exporter_image) for name in ("gpu01", "gpu02")},
    }
    with Stack(wanted, images, tmp_path) as running:
        yield running
        # Shown where the test failed.
        sys.stderr.write(running.logs())


def got(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def answered(url: str) -> Any:
    """None while nobody answers."""
    try:
        return got(url)
    except OSError:
        return None


def queries(board: str, *titles: str) -> dict[str, str]:
    """What panels of a dashboard ask for, by title; those whose query has no variable."""
    found = {}
    for row in dashboards()[board]["panels"]:
        for panel in (row, *row.get("panels", ())):
            if panel["title"] in titles:
                (target,) = panel["targets"]
                assert "$" not in target["expr"]
                found[panel["title"]] = target["expr"]
    assert set(found) == set(titles)
    return found


@pytest.mark.timeout(TIMEOUT + 600)
def test_a_recordings_incident_becomes_an_alert_and_dashboards_have_answers(stack: Stack) -> None:
    alertmanager, prometheus = stack.reach("alertmanager", 9093), stack.reach("prometheus", 9090)
    alerter = stack.reach("alerter", 9837)

    def alerts(matcher: str) -> list[dict[str, Any]]:
        stack.check()
        query = urllib.parse.urlencode({"filter": matcher})
        return answered(f"{alertmanager}/api/v2/alerts?{query}") or []

    # A group is evaluated once a minute, and an alert that found no Alertmanager yet is sent again after another.
    watchdog = wait_for(lambda: alerts('alertname="DutycycleWatchdog"'), "Prometheus sends its alerts", within=300)
    assert [one["name"] for one in watchdog[0]["receivers"]] == ["nobody"]

    for name in ("gpu01", "gpu02", "alerter"):
        eventually(partial(stack.healthy, name), f"{name} is healthy")

    def query(expression: str) -> list[dict[str, Any]]:
        asked = urllib.parse.urlencode({"query": expression})
        found: list[dict[str, Any]] = got(f"{prometheus}/api/v1/query?{asked}")["data"]["result"]
        return found

    def incidents() -> list[dict[str, Any]]:
        return alerts('incident!=""')

    # Windows of 15 and 30 minutes, and grace, at fifteen times the speed.
    found = wait_for(incidents, "an incident is an alert", within=480)
    labels = found[0]["labels"]
    assert labels["alertname"].startswith("Dutycycle")
    assert labels["subject"].startswith("slurm/")
    assert [one["name"] for one in found[0]["receivers"]] == ["page"]
    page = f"{alerter}/api/v1/incidents/{labels['incident']}"
    assert got(page)["incident"]["subject"] == labels["subject"]

    wanted: dict[str, Callable[[float], bool]] = {
        "Nodes answering": lambda value: value == 2,
        "Alerters that lead": lambda value: value == 1,
        "Sources down": lambda value: value == 0,
        "Last pass": lambda value: 0 <= value < 60,
    }
    for title, expression in queries("dutycycle-operations", *wanted).items():
        # A scrape that a busy machine missed leaves something out until the next.
        def shown(title: str = title, expression: str = expression) -> bool:
            rows = query(expression)
            return bool(rows) and wanted[title](float(rows[0]["value"][1]))

        wait_for(shown, title, within=120)
    eventually(lambda: query("count(gpu_workload:workload_gpu_busy_seconds_total:max)"), "what dashboards count by")
    # What is of this machine's time is right, too: nothing but the recording's own faults is told.
    assert alerts('service="dutycycle"') == alerts('alertname="DutycycleWatchdog"')
