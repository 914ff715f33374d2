"""What the pods ask for, and are held to, is enough for what was measured (benchmarks/RESULTS.md)."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest

from .checks.cluster import Cluster
from .checks.resources import amount
from .rendering import ROOT, Variant
from .variants import WITH_PODS, objects

RESULTS = (ROOT / "benchmarks/RESULTS.md").read_text()
ROOM = 2
"""A limit is for what goes wrong: figures are of quiet days, and of one release of each library."""


def measured(row: str, *figures: str) -> list[Decimal]:
    """All groups of these patterns in the only row of the table that has this text in it."""
    (found,) = (line for line in RESULTS.splitlines() if row in line)
    matched = [re.search(figure, found) for figure in figures]
    assert all(matched), found
    return [Decimal(one) for each in matched if each for one in each.groups()]


def _exporter() -> dict[str, Decimal]:
    """A node of 8 GPUs and one of 8 x 7 MIG instances, everything switched on."""
    memory = measured(
        "the same: memory, ours two processes", r"8 GPUs (\d+), .*MB resident", r"a MIG node (\d+), .* MB \|"
    )
    percent = measured("the same: CPU without a scrape", r"8 GPUs ([\d.]+) % of a core", r"a MIG node ([\d.]+) %")
    scrape = measured("three exporters on one NVML double", r"8 GPUs ([\d.]+),", r"8 x 7 MIG instances ([\d.]+),")
    return {"memory": max(memory) * 10**6, "cpu": max(percent) / 100 + max(scrape) / 1000 / 15}


def _alerter() -> dict[str, Decimal]:
    """At 10,000 GPUs, beside a watch of 5,000 pods; what is more, docs/sizing.md has."""
    (memory,) = measured("the alerter's pass over a real Prometheus of 10,000 GPUs", r"CPU and (\d+) MB at most")
    (whole, modules) = measured(
        "the watch of 5,000 GPU pods", r"([\d.]+) MB in all", r"the official client alone ([\d.]+)"
    )
    seconds = measured("the pass over canned answers", r"0.06; ([\d.]+), ([\d.]+), ([\d.]+); 4.0")
    (watch,) = measured("the watch of 5,000 GPU pods", r"; ([\d.]+) % of a core")
    return {"memory": (memory + whole - modules) * 10**6, "cpu": max(seconds) / 60 + watch / 100}


MEASURED = {"exporter": _exporter(), "alerter": _alerter()}


def too_little(resources: dict[str, Any], figures: dict[str, Decimal]) -> list[str]:
    found = []
    for name, figure in figures.items():
        if (amount(resources["requests"][name]) or 0) < figure:
            found.append(f"requests.{name}")
        if (amount(resources["limits"][name]) or 0) < ROOM * figure:
            found.append(f"limits.{name}")
    return found


@pytest.mark.parametrize("variant", WITH_PODS, ids=str)
def test_requests_and_limits_are_enough(variant: Variant) -> None:
    for pod in Cluster(tuple(objects(variant))).pods:
        for path, container in pod.containers():
            assert too_little(container["resources"], MEASURED[pod.labels["app.kubernetes.io/component"]]) == [], path


def test_the_figures_are_those_of_the_table() -> None:
    """A pattern that fits elsewhere in a row would find another figure."""
    exporter, alerter = MEASURED["exporter"], MEASURED["alerter"]
    assert 40 * 10**6 < exporter["memory"] < 64 * 10**6 < alerter["memory"] < 256 * 2**20
    assert Decimal("0.005") < exporter["cpu"] < Decimal("0.02") < alerter["cpu"] < Decimal("0.1")


@pytest.mark.parametrize(
    ("which", "part", "name", "value"),
    [
        ("exporter", "limits", "memory", "65Mi"),
        ("exporter", "requests", "memory", "40Mi"),
        ("exporter", "requests", "cpu", "5m"),
        ("exporter", "limits", "cpu", "10m"),
        ("alerter", "limits", "memory", "256Mi"),
        ("alerter", "requests", "memory", "128Mi"),
        ("alerter", "requests", "cpu", "20m"),
    ],
)
def test_too_little_is_found(which: str, part: str, name: str, value: str) -> None:
    enough = {"requests": {"memory": "1Gi", "cpu": "1"}, "limits": {"memory": "2Gi", "cpu": "2"}}
    assert too_little(enough, MEASURED[which]) == []
    enough[part][name] = value
    assert too_little(enough, MEASURED[which]) == [f"{part}.{name}"]
