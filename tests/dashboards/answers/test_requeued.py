"""The Job board of jobs that ran twice, on a GPU that another had before, and of one whose user is not known."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dutycycle_dashboards import render
from dutycycle_dashboards.building.links import JOB
from tests.dashboards.answers.interpolation import Dashboard
from tests.prometheus.server import PrometheusServer

START, END, STEP = 1_790_000_000, 1_790_007_200, 60
STOPPED, AGAIN, OVER = START + 1800, START + 3600, START + 6000
"""A first run's end, a second one's beginning and, of a job that has ended, its end."""
RUNS = (
    ("slurm/1", "ann", "n1", 2, START, STOPPED),
    ("slurm/1", "ann", "n2", 1, AGAIN, END),
    ("slurm/2", "bob", "n3", 2, START, STOPPED),
    ("slurm/2", "bob", "n4", 1, AGAIN, OVER),
    ("slurm/3", "", "n5", 1, START, END),
)
"""Of workloads: user, node, number of GPUs, from when, until when."""
BUSY = {"n2": AGAIN - 600, "n5": OVER}
"""When a node's first GPU was last busy: on the one it was another's job that was."""
FAULTS = {"1": "n5", "2": "n9"}
"""Incidents of GPUs, by number: the node."""


def exported() -> Iterator[tuple[str, str, float, int, int]]:
    """Series by name and labels, with their value, from when, until when."""
    for workload, user, node, gpus, begin, end in RUNS:
        for gpu in range(gpus):
            device = f'node="{node}",gpu="{gpu}",gpu_uuid="GPU-{node}-{gpu}",mig=""'
            labels = f'{device},workload="{workload}",user="{user}",model="H100"'
            yield "gpu_allocation", labels, 1, begin, end
            yield "gpu_allocation_start_timestamp_seconds", labels, begin, begin, end
            yield "workload_gpu_allocated_seconds_total", labels, 1, begin, end
            if gpu == 0 and node in BUSY:
                yield "gpu_last_busy_timestamp_seconds", device, BUSY[node], BUSY[node], END
    opened = "dutycycle_incident_opened_timestamp_seconds"
    for number, node in FAULTS.items():
        yield opened, f'incident="{number}",rule="gpu_fault",kind="gpu",node="{node}"', START, START, END
    yield opened, 'incident="3",rule="idle",kind="job",user="ann",subject="slurm/1"', START, START, END


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    lines: dict[str, list[str]] = {}
    for name, labels, value, begin, end in exported():
        samples = lines.setdefault(name, [])
        samples += [f"{name}{{{labels}}} {value} {at}" for at in range(begin, end + 1, STEP)]
    text = "\n".join([*(line for samples in lines.values() for line in samples), "# EOF", ""])
    with PrometheusServer(tmp_path_factory.mktemp("requeued"), openmetrics=text) as running:
        yield running


def shown(server: PrometheusServer, workload: str, title: str, letter: str, label: str) -> dict[str, float]:
    """What a table's query answers, by a label."""
    board = Dashboard(server.url, render.dashboards()[JOB], START, END, {"workload": [workload]})
    [panel] = [panel for panel in board.panels() if panel["title"] == title]
    [target] = [target for target in panel["targets"] if target["refId"] == letter]
    return {row["metric"].get(label, ""): float(row["value"][1]) for row in board.ask(panel, target)}


@pytest.mark.parametrize(("workload", "runs"), [("slurm/1", 1), ("slurm/2", 0), ("slurm/3", 1)])
def test_what_a_job_held_before_it_was_requeued_is_not_added(
    workload: str, runs: int, server: PrometheusServer
) -> None:
    found = {letter: shown(server, workload, "Jobs", letter, "workload") for letter in "ABC"}
    assert found == {"A": {workload: 1}, "B": {workload: 1}, "C": {workload: runs}}


def test_a_job_that_ended_held_what_it_held_together(server: PrometheusServer) -> None:
    """In a range that has its first run alone."""
    board = Dashboard(server.url, render.dashboards()[JOB], START, AGAIN - STEP, {"workload": ["slurm/2"]})
    [panel] = [panel for panel in board.panels() if panel["title"] == "Jobs"]
    gpus, nodes = (board.ask(panel, target) for target in panel["targets"][:2])
    assert [float(row["value"][1]) for row in (*gpus, *nodes)] == [2, 1]


@pytest.mark.parametrize(("workload", "busy"), [("slurm/1", {}), ("slurm/3", {"slurm/3": 1000 * OVER})])
def test_what_was_busy_before_the_job_was_anothers(
    workload: str, busy: dict[str, float], server: PrometheusServer
) -> None:
    assert shown(server, workload, "Jobs", "E", "workload") == busy


@pytest.mark.parametrize(("workload", "incidents"), [("slurm/1", {"3"}), ("slurm/2", set()), ("slurm/3", {"1"})])
def test_a_job_has_the_incidents_of_its_user_and_of_its_nodes_alone(
    workload: str, incidents: set[str], server: PrometheusServer
) -> None:
    assert set(shown(server, workload, "Open incidents of its user and nodes", "A", "incident")) == incidents
