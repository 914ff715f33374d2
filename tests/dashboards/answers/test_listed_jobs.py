"""The tables of jobs say what is true of each job."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dutycycle_dashboards import render
from dutycycle_dashboards.building.links import FLEET, USER
from tests.dashboards.answers.fleet import DAY, HOUR, MIDNIGHT, Fleet, Job
from tests.dashboards.answers.interpolation import Dashboard
from tests.prometheus.server import PrometheusServer

LATER = MIDNIGHT + DAY + 2 * HOUR
HALF_A_MINUTE = 30 / HOUR
"""For each GPU, by which the hours of a job that ended may be too many: half of what is between two copies."""


def table(server: PrometheusServer, uid: str, title: str, **chosen: list[str]) -> dict[str, dict[str, float]]:
    """By target and by job."""
    board = Dashboard(server.url, render.dashboards()[uid], LATER - 27 * HOUR, LATER, chosen)
    [panel] = [panel for panel in board.panels() if panel["title"] == title]
    return {
        target["refId"]: {row["metric"]["workload"]: float(row["value"][1]) for row in board.ask(panel, target)}
        for target in panel["targets"]
    }


def hours(job: Job) -> float:
    return job.seconds * job.share * len(job.gpus) / HOUR


def close(job: Job, share: float = 1.0) -> object:
    """Within a hundredth and what `HALF_A_MINUTE` says."""
    slack = HALF_A_MINUTE * job.share * len(job.gpus)
    return pytest.approx(hours(job) * share, abs=share * (0.01 * hours(job) + slack) + 1e-6)


@pytest.mark.parametrize("user", ["edge", "kay", "mia", "nemo"])
def test_one_users_jobs(user: str, fleet_server: PrometheusServer, fleet: Fleet) -> None:
    found = table(fleet_server, USER, "Jobs", person=[user])
    jobs = {job.owner["workload"]: job for job in fleet.jobs if job.user == user}
    measured = {name: job for name, job in jobs.items() if job.utilization is not None}
    assert found["A"] == {name: close(job) for name, job in jobs.items()}
    wasted = {name: 1 - (job.utilization or 0) if name in measured else 0 for name, job in jobs.items()}
    assert found["B"] == {name: close(job, wasted[name]) for name, job in jobs.items()}
    means = {name: 100 * (job.utilization or 0) for name, job in measured.items()}
    assert found["C"] == pytest.approx(means, abs=0.5)
    assert found["D"] == {name: len(job.gpus) for name, job in jobs.items()}


@pytest.mark.parametrize(
    ("title", "of"), [("Jobs that waste most", lambda busy: 1 - busy), ("Jobs that do most", lambda busy: busy)]
)
def test_the_jobs_that_waste_and_do_most(
    title: str, of: Callable[[float], float], fleet_server: PrometheusServer, fleet: Fleet
) -> None:
    found = table(fleet_server, FLEET, title)
    jobs = {job.owner["workload"]: job for job in fleet.jobs if job.utilization is not None}
    ranked = sorted(jobs, key=lambda name: -hours(jobs[name]) * of(jobs[name].utilization or 0))
    assert len(found["A"]) == 20
    assert set(ranked[:15]) <= set(found["A"])
    for name, value in found["A"].items():
        assert value == close(jobs[name], of(jobs[name].utilization or 0)), name
        assert found["B"][name] == pytest.approx(100 * (jobs[name].utilization or 0), abs=0.5)
        assert found["C"][name] == close(jobs[name])
