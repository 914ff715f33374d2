"""Every query of every dashboard, with variables filled in as Grafana does it, over a fleet that has everything."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from dutycycle_dashboards import render
from dutycycle_dashboards.building import board, links
from tests.dashboards.answers.contract import SITES, metrics
from tests.dashboards.answers.fleet import END, HOUR, MIDNIGHT, Fleet
from tests.dashboards.answers.interpolation import Dashboard
from tests.dashboards.answers.names import names
from tests.prometheus.server import PrometheusServer

NOW = MIDNIGHT + END
BOARDS = {made.uid: made for made in render.BOARDS}
CHOSEN = {
    links.USER: {"person": ["kay"]},
    links.JOB: {"workload": [next(job.owner["workload"] for job in Fleet().jobs if job.user == "late")]},
    links.NODE: {"node": ["b2"]},
}
"""What is looked at where something must be chosen: who has most of what there is."""


def asked() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for uid, model in render.dashboards().items():
        for row in model["panels"]:
            for panel in (row, *row.get("panels", ())):
                for target in panel.get("targets", ()):
                    yield uid, panel, target


ASKED = [pytest.param(*one, id=f"{one[0]}-{one[1]['title']}-{one[2]['refId']}") for one in asked()]


@cache
def opened(url: str, uid: str, hours: float) -> Dashboard:
    return Dashboard(url, render.dashboards()[uid], NOW - hours * HOUR, NOW, CHOSEN.get(uid))


@pytest.mark.parametrize(("uid", "panel", "target"), ASKED)
def test_it_has_an_answer_or_says_why_not(
    uid: str, panel: dict[str, Any], target: dict[str, Any], fleet_server: PrometheusServer
) -> None:
    rows = opened(fleet_server.url, uid, 6).ask(panel, target)
    assert rows or board.targets(BOARDS[uid])[panel["id"], target["refId"]]
    for row in rows:
        values = [row["value"]] if "value" in row else row["values"]
        assert any(not math.isnan(float(value)) for _, value in values), row


@pytest.mark.parametrize(("uid", "panel", "target"), ASKED)
def test_long_ranges_are_answered_too(
    uid: str, panel: dict[str, Any], target: dict[str, Any], fleet_server: PrometheusServer
) -> None:
    opened(fleet_server.url, uid, 7 * 24).ask(panel, target)


@pytest.mark.parametrize(("uid", "panel", "target"), ASKED)
def test_it_asks_for_nothing_that_is_not_in_the_contract(
    uid: str, panel: dict[str, Any], target: dict[str, Any], fleet_server: PrometheusServer
) -> None:
    known = metrics()
    found = names(opened(fleet_server.url, uid, 6).query(panel, target))
    for metric, matched in found.selected:
        assert metric in known
        assert set(matched) <= known[metric], metric
    there = frozenset[str]().union(*(known[metric] for metric, _ in found.selected))
    assert found.grouped <= there | found.made | SITES


@pytest.mark.parametrize("uid", BOARDS)
def test_every_choice_has_values(uid: str, fleet_server: PrometheusServer) -> None:
    found = opened(fleet_server.url, uid, 6)
    assert all(found.options.values()), found.options
    if "res" in found.variables:
        assert found.variables["res"].values == ("5m",)
        assert opened(fleet_server.url, uid, 7 * 24).variables["res"].values == ("1h",)


TABLES = [
    pytest.param(uid, panel, id=f"{uid}-{panel['title']}")
    for uid, panel in {(uid, panel["id"]): (uid, panel) for uid, panel, _ in asked()}.values()
    if panel["type"] == "table" and len(panel["targets"]) > 1
]


@pytest.mark.parametrize(("uid", "panel"), TABLES)
def test_what_alone_has_rows_in_a_table_is_its_first_query(
    uid: str, panel: dict[str, Any], fleet_server: PrometheusServer
) -> None:
    """Grafana does not say whose values they are where one query alone answers."""
    shown = set(panel["transformations"][-1]["options"]["indexByName"])

    def rows(target: dict[str, Any]) -> set[frozenset[tuple[str, str]]]:
        found = opened(fleet_server.url, uid, 6).ask(panel, target)
        return {frozenset((name, value) for name, value in row["metric"].items() if name in shown) for row in found}

    first, *others = panel["targets"]
    for other in others:
        assert rows(other) <= rows(first), other["refId"]
