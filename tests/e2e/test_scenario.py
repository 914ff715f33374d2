"""Two nodes of eight GPUs and ten jobs, from NVML to incidents: the right ones open with the right causes, none on the
healthy jobs, nothing on missing data; and all resolve when the load turns healthy.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.site import Alerter, Site, wait_for
from tests.fakes.cgroup import Use
from tests.fakes.node import NodeJob, Work
from tests.fakes.nvml import IDLE, Level, Libraries, Pattern, Paused, Steps

TIME_SCALE = 40.0
MINUTE = 60.0
HEALTHY = Level(0.95)

DATA_LOADING, COMMUNICATION = "data loading", "communication or straggler"
SMALL_WORK, OVER_REQUEST = "small work per step", "over-request"
NO_PROCESS, IDLE_NOTEBOOK = "no process", "idle notebook"


PLAIN = Work()


@dataclass(frozen=True)
class Case:
    """A job, and the incident that it must have: (rule, causes), or None."""

    job_id: int
    node: str
    patterns: dict[int, Pattern]
    incident: tuple[str, list[str]] | None
    work: Work = PLAIN
    empty_gpus: tuple[int, ...] = ()
    """GPUs that are allocated to the job and have no process."""


CASES = [
    Case(101, "a", {0: IDLE}, ("idle", [IDLE_NOTEBOOK]), Work(command=("jupyter-lab",), use=Use(cpu_cores=0.02))),
    Case(102, "a", {}, ("idle", [NO_PROCESS]), empty_gpus=(1,)),
    Case(103, "a", {2: Level(0.9)}, ("partially_idle", [OVER_REQUEST]), empty_gpus=(3,)),
    Case(104, "a", {4: Level(0.92), 5: Level(0.45)}, ("uneven", [COMMUNICATION])),
    Case(105, "a", {6: Steps(2.0, 0.35)}, ("stalled", [DATA_LOADING]), Work(use=Use(cpu_cores=7.8, io_pressure=0.3))),
    # 51 ms of work in each 300 ms: at 6 Hz a third of the samples still falls into the gaps.
    Case(106, "a", {7: Steps(0.3, 0.17)}, ("stalled", [DATA_LOADING, COMMUNICATION, SMALL_WORK])),
    Case(107, "b", {0: Paused(Level(0.97), 540, 60), 1: Paused(Level(0.97), 540, 60)}, None),
    Case(108, "b", {2: Level(0.12)}, ("underused", [SMALL_WORK])),
    Case(109, "b", {gpu: Level(0.95) for gpu in range(3, 7)}, None),
    Case(110, "b", {7: Steps(0.5, 0.93)}, None),
]
EXPECTED = {f"slurm/{case.job_id}": case.incident for case in CASES if case.incident is not None}


def start(site: Site, case: Case) -> NodeJob | None:
    """Start a job as Slurm does: the prolog writes its files, then its processes begin."""
    node = site.nodes[case.node]
    uuids = [node.driver.gpus[gpu].uuid for gpu in (*case.patterns, *case.empty_gpus)]
    site.exporters[case.node].prolog.start(case.job_id, uuids, user="alice", start=time.time())
    return node.slurm_job(case.job_id, case.patterns, case.work) if case.patterns else None


def active(alerter: Alerter) -> dict[str, dict[str, Any]]:
    """Every incident that is not resolved, by job."""
    answer = alerter.get("/api/v1/incidents?limit=200")
    return {i["subject"]: i for i in answer["incidents"] if i["state"] != "resolved"}


def found(alerter: Alerter) -> dict[str, tuple[str, list[str]]]:
    return {job: (i["rule"], i["diagnosis"]["causes"]) for job, i in active(alerter).items()}


def turn_healthy(site: Site, jobs: dict[int, NodeJob | None]) -> None:
    """Every job now uses all of its GPUs, and nothing holds them up."""
    for case in CASES:
        job = jobs[case.job_id]
        if job is not None:
            job.change(HEALTHY)
            job.use(Use(cpu_cores=1.0))
        if case.empty_gpus:
            site.nodes[case.node].slurm_job(case.job_id, dict.fromkeys(case.empty_gpus, HEALTHY))


@pytest.mark.timeout(900)
def test_scenario(tmp_path: Path, nvml_libraries: Libraries) -> None:
    run(tmp_path, nvml_libraries, TIME_SCALE)


@pytest.mark.soak
def test_scenario_at_full_length(tmp_path: Path, nvml_libraries: Libraries) -> None:
    run(tmp_path, nvml_libraries, 1.0)


def run(directory: Path, libraries: Libraries, time_scale: float) -> None:
    with Site(directory, libraries, time_scale) as site:
        for name in ("a", "b"):
            site.add_node(name)
        alerter = site.alerter()
        jobs = {case.job_id: start(site, case) for case in CASES}
        for node in site.nodes.values():
            node.start()
        for exporter in site.exporters.values():
            exporter.start()
        alerter.start()

        # The longest way to a verdict is grace and a window of 30 min; a pass a minute, and room for a slow machine.
        within = 70 * MINUTE / time_scale
        wait_for(lambda: len(found(alerter)) >= len(EXPECTED), f"{len(EXPECTED)} incidents", within=within)
        site.sleep(5 * MINUTE)
        assert found(alerter) == EXPECTED
        opened = {job: incident["id"] for job, incident in active(alerter).items()}

        check_that_a_dead_exporter_changes_nothing(site, alerter)
        check_that_a_gap_in_scraping_changes_nothing(site, alerter)
        assert found(alerter) == EXPECTED
        assert {job: incident["id"] for job, incident in active(alerter).items()} == opened

        turn_healthy(site, jobs)
        wait_for(lambda: not active(alerter), "every incident resolved", within=within)
        everything = alerter.get("/api/v1/incidents?limit=200")["incidents"]
        assert {i["subject"] for i in everything} == set(EXPECTED)
        assert len(everything) == len(EXPECTED)
        assert {i["resolution"] for i in everything} == {"cleared"}


def check_that_a_dead_exporter_changes_nothing(site: Site, alerter: Alerter) -> None:
    """An exporter is killed for 20 minutes and starts again with its counters at 0."""
    before = history(alerter)
    site.exporters["b"].kill()
    site.sleep(20 * MINUTE)
    site.exporters["b"].start()
    site.sleep(10 * MINUTE)
    assert history(alerter) == before


def check_that_a_gap_in_scraping_changes_nothing(site: Site, alerter: Alerter) -> None:
    """The alerter is killed for ten minutes; it goes on where it was."""
    before = history(alerter)
    alerter.kill()
    site.sleep(10 * MINUTE)
    alerter.start()
    wait_for(lambda: alerter.get("/api/v1/status"), "the alerter answers", within=60)
    site.sleep(10 * MINUTE)
    assert history(alerter) == before


def history(alerter: Alerter) -> dict[str, list[str]]:
    """Every event of every incident."""
    incidents = alerter.get("/api/v1/incidents?limit=200")["incidents"]
    return {
        i["subject"]: [event["kind"] for event in alerter.get(f"/api/v1/incidents/{i['id']}")["events"]]
        for i in incidents
    }
