"""The Job board's numbers, against what the jobs of the fleet did."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dutycycle_dashboards import render
from tests.dashboards.answers.fleet import END, HOUR, MIDNIGHT, Fleet, Job
from tests.dashboards.answers.interpolation import Dashboard
from tests.prometheus.server import PrometheusServer

NOW = MIDNIGHT + END
JOBS = {job.user: job for job in Fleet().jobs if job.user in {"edge", "late", "kay", "low", "nemo"}}


def opened(server: PrometheusServer, jobs: Sequence[Job], hours: float = 6) -> Dashboard:
    chosen = {"workload": [job.owner["workload"] for job in jobs]}
    return Dashboard(server.url, render.dashboards()["dutycycle-job"], NOW - hours * HOUR, NOW, chosen)


def number(board: Dashboard, title: str) -> float | None:
    """What a panel of one number shows."""
    panel = next(panel for panel in board.panels() if panel["title"] == title and panel["type"] == "stat")
    rows = board.ask(panel, panel["targets"][0])
    return float(rows[0]["value"][1]) if rows else None


@pytest.mark.parametrize("user", ["edge", "late", "kay"])
def test_hours_utilization_waste_and_coverage_are_those_of_the_job(user: str, fleet_server: PrometheusServer) -> None:
    job = JOBS[user]
    assert job.utilization is not None
    board = opened(fleet_server, [job])
    hours = 6.0 * len(job.gpus)
    assert number(board, "Allocated") == pytest.approx(hours, rel=0.01)
    assert number(board, "Mean utilization") == pytest.approx(100 * job.utilization, rel=0.01)
    assert number(board, "Wasted") == pytest.approx(hours * (1 - job.utilization), rel=0.01)
    assert number(board, "Coverage") == pytest.approx(100, rel=0.01)


def test_of_what_is_not_measured_nothing_is_said_to_be_wasted_or_idle(fleet_server: PrometheusServer) -> None:
    board = opened(fleet_server, [JOBS["nemo"]])
    assert number(board, "Coverage") == 0
    assert [number(board, title) for title in ("Mean utilization", "Wasted", "Idle GPUs")] == [None, None, None]


def test_pods_of_one_job_are_compared_with_each_other(fleet_server: PrometheusServer) -> None:
    board = opened(fleet_server, [JOBS["edge"], JOBS["late"]])
    assert number(board, "Unevenness") == pytest.approx(100 * (1 - 0.25 / 0.71), rel=0.01)


def test_a_job_that_has_ended_is_still_told(fleet_server: PrometheusServer) -> None:
    job = JOBS["low"]
    board = opened(fleet_server, [job])
    (table,) = (panel for panel in board.panels() if panel["title"] == "Jobs")
    found = {}
    for target in table["targets"]:
        rows = board.ask(table, target)
        assert [row["metric"]["workload"] for row in rows] in ([], [job.owner["workload"]])
        found[target["refId"]] = float(rows[0]["value"][1]) if rows else None
    gpus, nodes, runs, started = (found[letter] for letter in "ABCD")
    assert (gpus, nodes, runs) == (2, 1, 0)
    assert started == pytest.approx(1000 * (MIDNIGHT + job.start), abs=1000)
