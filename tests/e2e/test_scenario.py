"""Two nodes of eight GPUs and ten jobs, from NVML to incidents: the right ones open with the right causes, none on the
healthy jobs, nothing on missing data; and all resolve when the load turns healthy. Everybody is told of each, once.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.receivers import OPERATORS, Receivers
from tests.e2e.site import Alerter, Site, wait_for
from tests.fakes.cgroup import Use
from tests.fakes.node import NodeJob, Work
from tests.fakes.nvml import IDLE, Level, Libraries, Pattern, Paused, Steps

TIME_SCALE = 40.0
GPUS = 16
MINUTE = 60.0
HEALTHY = Level(0.95)
PATIENCE = 60.0
"""Wall seconds that a machine that does much else may need."""

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
    Case(106, "a", {7: Steps(0.3, 0.17)}, ("stalled", [DATA_LOADING, SMALL_WORK])),
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
def test_scenario(tmp_path: Path, nvml_libraries: Libraries, mail_certificate: tuple[Path, Path]) -> None:
    run(tmp_path, nvml_libraries, TIME_SCALE, mail_certificate)


@pytest.mark.soak
def test_scenario_at_full_length(
    tmp_path: Path, nvml_libraries: Libraries, mail_certificate: tuple[Path, Path]
) -> None:
    run(tmp_path, nvml_libraries, 1.0, mail_certificate)


def run(directory: Path, libraries: Libraries, time_scale: float, certificate: tuple[Path, Path]) -> None:
    with Receivers(directory, certificate) as told, Site(directory, libraries, time_scale) as site:
        for name in ("a", "b"):
            site.add_node(name)
        alerter = site.alerter({"notify": told.settings()})
        for node in site.nodes.values():
            node.start()
        for exporter in site.exporters.values():
            exporter.start()
        alerter.start()
        wait_for(lambda: alerter.get("/api/v1/gpus")["total"] == GPUS, "every GPU is watched", within=PATIENCE)
        # Not before: of a job whose first minutes nobody saw, less can be told.
        jobs = {case.job_id: start(site, case) for case in CASES}

        # The longest way to a verdict is grace and a window of 30 min; a pass a minute, and room for a slow machine.
        within = PATIENCE + 70 * MINUTE / time_scale
        wait_for(lambda: len(found(alerter)) >= len(EXPECTED), f"{len(EXPECTED)} incidents", within=within)
        site.sleep(5 * MINUTE)
        assert found(alerter) == EXPECTED
        opened = {job: incident["id"] for job, incident in active(alerter).items()}
        check_that_everybody_is_told(told, set(opened.values()), alerter, time_scale)

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
        check_that_everybody_is_told_of_the_end(told, set(opened.values()), time_scale)


def check_that_everybody_is_told(told: Receivers, opened: set[int], alerter: Alerter, time_scale: float) -> None:
    """Operators in each way, and alice, whose jobs they are; who answers her mail by its link takes care of it."""
    once = dict.fromkeys(opened, 1)
    within = PATIENCE + 20 * MINUTE / time_scale
    wait_for(lambda: told.told_program("opened") == once, "the program is told of each once", within=within)
    wait_for(lambda: told.firing() == opened, "Alertmanager shows them", within=within)
    wait_for(lambda: len(told.heads()) == len(opened), "each has a thread in Slack", within=within)
    for address in (OPERATORS, "alice@example.org"):
        wait_for(lambda to=address: set(told.mailed(to)) == opened, f"{address} has mail of each", within=within)
    page = told.acknowledge_by_mail("alice@example.org")
    assert "Nothing has changed yet" in page
    states = [incident["state"] for incident in active(alerter).values()]
    assert sorted(set(states)) == ["acknowledged", "open"]
    assert states.count("acknowledged") == 1
    wait_for(lambda: any("alice" in head and "cknowledged" in head for head in told.heads()), "Slack", within=within)


def check_that_everybody_is_told_of_the_end(told: Receivers, opened: set[int], time_scale: float) -> None:
    """And nobody of anything twice, though the alerter was killed in between."""
    once = dict.fromkeys(opened, 1)
    within = PATIENCE + 20 * MINUTE / time_scale
    wait_for(lambda: told.told_program("resolved") == once, "the program is told of each end", within=within)
    wait_for(lambda: not told.firing(), "Alertmanager shows none", within=within)
    wait_for(lambda: all("esolved" in head for head in told.heads()), "every thread is closed", within=within)
    assert len(told.heads()) == len(opened)
    assert told.told_program("opened") == once
    for address in (OPERATORS, "alice@example.org"):
        assert told.mailed(address) == once


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
