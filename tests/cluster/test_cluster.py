"""Jobs of three users on four nodes, from NVML and Slurm through Prometheus to incidents: the right ones open with the
right causes and owners; jobs that end, begin anew or die with their node end theirs; sources that are away change
nothing; and the ledger has what Slurm's own accounting has.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.site import wait_for
from tests.fakes.nvml import Libraries
from tests.slurm.cluster import GPUS, NODES

from .accounts import accounted, bounds
from .cases import CASES, SHORT_TASK
from .loads import Life, PlaceInSlurm
from .site import INTERVAL, PATIENCE, ClusterSite
from .slurm import MortalCluster

TIME_SCALE = 75.0
"""Intervals are whole milliseconds then, as Prometheus has them."""
MINUTE = 60.0
OUTAGE = 16 * MINUTE
"""Longer than the shortest window of the rules."""
SETTLED = 3 * MINUTE
"""Long enough for several passes over what has just come back."""

FOUND = {name: case.finding for name, case in CASES.items() if case.finding is not None}


@pytest.mark.timeout(900)
def test_cluster(tmp_path: Path, nvml_libraries: Libraries, mortal_cluster: MortalCluster) -> None:
    run(tmp_path, nvml_libraries, mortal_cluster, TIME_SCALE)


@pytest.mark.soak
@pytest.mark.parametrize("requeue_delay", [pytest.param(60, id="soak")])
def test_cluster_at_half_its_length(tmp_path: Path, nvml_libraries: Libraries, mortal_cluster: MortalCluster) -> None:
    """In an hour and a half: what only takes long shows, such as a credential that expires. The whole is over three.

    Slurm makes a requeued job wait for two minutes where nobody says otherwise: half of that here.
    """
    run(tmp_path, nvml_libraries, mortal_cluster, 2.0)


def run(directory: Path, libraries: Libraries, cluster: MortalCluster, time_scale: float) -> None:
    with ClusterSite(directory, libraries, time_scale, cluster) as site:
        site.alerter.start()
        wait_for(
            lambda: site.status()["last_pass"] and not site.away(), "every source answers", within=site.until_judged
        )
        every = f'"{len(NODES) * GPUS}"'
        wait_for(
            lambda: every in site.prometheus.answer("count(gpu_info)"), "all are scraped", within=site.until_judged
        )
        jobs = {name: submit(site, name) for name in CASES}

        the_right_incidents_open(site, jobs)
        jobs_end_by_slurms_word(site, jobs)
        slurm_away_changes_nothing(site)
        prometheus_frozen_changes_nothing(site)
        the_second_life_is_judged_by_itself(site, jobs)
        exporters_dead_change_nothing(site)
        everything_away_changes_nothing(site)
        the_rest_ends(site, jobs)
        the_ledger_is_what_slurm_accounts_for(site)


def submit(site: ClusterSite, name: str) -> int:
    """Of a job on two nodes each has a step: of a node without one Slurm does not know, once it is back, that a job was
    there, and runs no epilog.
    """
    case = CASES[name]
    scripts = {"array": f"exec sleep {SHORT_TASK / site.time_scale:g}", "uneven": "exec srun sleep infinity"}
    script = scripts.get(name, "exec sleep infinity")
    return site.slurm.submit(case.user, f"--job-name={name}", *case.options, script=script)


def the_right_incidents_open(site: ClusterSite, jobs: Mapping[str, int]) -> None:
    # The longest way to a verdict is grace and a window of 30 min; a pass a minute, and room for a slow machine.
    within = PATIENCE + 60 * MINUTE / site.time_scale
    wait_for(lambda: len(site.incidents()) >= len(FOUND), f"{len(FOUND)} incidents", within=within)
    site.sleep(SETTLED)
    names = {f"slurm/{job}": name for name, job in jobs.items()}
    incidents = {names.get(incident["subject"], incident["subject"]): incident for incident in site.incidents()}
    assert {name: told(incident) for name, incident in incidents.items()} == {
        name: (found.rule, found.causes, found.severity, CASES[name].user, "open") for name, found in FOUND.items()
    }
    for name, incident in incidents.items():
        held = list(site.loads.holds[Life(jobs[name], 0)])
        accused = {(gpu["node"], gpu["uuid"]) for gpu in incident["gpus"]}
        assert (incident["job_gpus"], incident["scheduler"], incident["partition"]) == (len(held), "slurm", "gpu"), name
        assert accused == {(node, site.uuid((node, gpu))) for node, gpu in (held[place] for place in at_fault(name))}, (
            name
        )


def told(incident: Mapping[str, Any]) -> tuple[str, tuple[str, ...], str, str, str]:
    causes = tuple(incident["diagnosis"]["causes"])
    return incident["rule"], causes, incident["severity"], incident["user"], incident["state"]


def at_fault(name: str) -> list[int]:
    """Which of the job's GPUs its incident is about: those that do nothing, that lag behind, or all."""
    patterns = CASES[name].lives[0].patterns
    return {"half": [1, 3], "uneven": [2, 3]}.get(name, list(range(len(patterns))))


@contextmanager
def nothing_changes(site: ClusterSite, what: str) -> Iterator[None]:
    """Within and for some time after, no incident opens, none is resolved, and no rule joins or leaves one."""
    before = lives(site)
    yield
    assert lives(site) == before, f"while {what}"
    site.sleep(SETTLED)
    assert lives(site) == before, f"after {what}"


def lives(site: ClusterSite) -> dict[int, tuple[str, ...]]:
    """The history of every incident, but for what two idle hours do to it at any time."""
    return {i: tuple(kind for kind in kinds if kind != "severity changed") for i, kinds in site.history().items()}


def slurm_away_changes_nothing(site: ClusterSite) -> None:
    with nothing_changes(site, "Slurm cannot be asked"):
        site.slurm.stop_control()
        stay_away(site, {"slurm"})
        site.slurm.start_control()


def prometheus_frozen_changes_nothing(site: ClusterSite) -> None:
    with nothing_changes(site, "Prometheus accepts connections and says nothing"), site.frozen_prometheus():
        stay_away(site, {site.prometheus.url})


def exporters_dead_change_nothing(site: ClusterSite) -> None:
    with nothing_changes(site, "all exporters are dead"):
        for node in NODES:
            site.kill_exporter(node)
        stay_away(site, {site.prometheus.url})
        for node in NODES:
            site.start_exporter(node)


def everything_away_changes_nothing(site: ClusterSite) -> None:
    with nothing_changes(site, "Prometheus has lost all it knew, Slurm and every exporter are away"):
        for node in NODES:
            site.kill_exporter(node)
        site.slurm.stop_control()
        site.prometheus.forget()
        stay_away(site, {site.prometheus.url, "slurm"})
        since = time.time()
        site.prometheus.remember()
        # A counter that began at 0 again is only seen to have done so while it is lower than it was.
        scrapes = f'"{len(NODES)}"'
        query = f"count(timestamp(up) > {since:.3f})"
        wait_for(lambda: scrapes in site.prometheus.answer(query), "all are scraped again", within=site.until_judged)
        for node in NODES:
            site.start_exporter(node)
        site.slurm.start_control()


def stay_away(site: ClusterSite, sources: set[str]) -> None:
    """For longer than the shortest window; and the alerter says which sources are away."""
    site.sleep(OUTAGE)
    wait_for(lambda: sources <= site.away(), f"the alerter says that {sources} are away", within=site.until_judged)


def jobs_end_by_slurms_word(site: ClusterSite, jobs: Mapping[str, int]) -> None:
    """One is cancelled, one requeued, a third one's node dies meanwhile."""
    site.slurm.power_off("n4")
    site.kill_exporter("n4")
    site.slurm.cancel(str(jobs["half"]))
    site.slurm.scontrol("requeue", str(jobs["again"]))
    for name in ("half", "again"):
        wait_for(lambda name=name: ended(site, jobs[name]), f"the incident of {name} ended", within=site.until_judged)
    wait_for(lambda: Life(jobs["again"], 1) in site.loads.holds, "the requeued job runs again", within=PATIENCE)
    site.sleep(OUTAGE)
    others = {name: incident_of(site, jobs[name])["state"] for name in FOUND if name not in {"half", "again"}}
    assert set(others.values()) == {"open"}, others

    site.slurm.declare_down("n4")
    wait_for(
        lambda: ended(site, jobs["uneven"]), "the incident of the job on the dead node ended", within=site.until_judged
    )
    site.slurm.power_on("n4")
    site.start_exporter("n4")


def the_second_life_is_judged_by_itself(site: ClusterSite, jobs: Mapping[str, int]) -> None:
    """All that runs is judged, the requeued job too, and what it wasted in its first life is not said again."""
    running = CASES.keys() - {"half", "uneven", "doomed", "array"}
    within = PATIENCE + 60 * MINUTE / site.time_scale
    wait_for(lambda: site.status()["jobs_judged"] == len(running), f"{len(running)} jobs are judged", within=within)
    assert ended(site, jobs["again"])


def the_rest_ends(site: ClusterSite, jobs: Mapping[str, int]) -> None:
    site.slurm.cancel_all()
    wait_for(lambda: all(ended(site, jobs[name]) for name in FOUND), "every incident ended", within=site.until_judged)
    assert len(site.incidents()) == len(FOUND)
    runs = accounted(site.slurm)
    for name in FOUND:
        incident, run = incident_of(site, jobs[name]), runs[Life(jobs[name], 0)]
        told = datetime.fromisoformat(incident["resolved_at"]).timestamp(), incident["figures"]["elapsed_seconds"]
        assert told == (run.end, run.elapsed), f"{name} ended otherwise than {run}"


def incident_of(site: ClusterSite, job: int) -> dict[str, Any]:
    [found] = [incident for incident in site.incidents() if incident["subject"] == f"slurm/{job}"]
    return found


def ended(site: ClusterSite, job: int) -> bool:
    """Whether its incident has, with the figures of Slurm's accounting."""
    incident = incident_of(site, job)
    return incident["resolution"] == "ended" and "elapsed_seconds" in incident["figures"]


def still_held(site: ClusterSite) -> list[PlaceInSlurm]:
    """GPUs of which no epilog has told yet."""
    lives = list(site.loads.holds.values())
    return [gpu for life in lives for gpu, hold in life.items() if hold.until is None]


def the_ledger_is_what_slurm_accounts_for(site: ClusterSite) -> None:
    wait_for(lambda: len(accounted(site.slurm)) == len(site.loads.holds), "slurmdbd has every run", within=PATIENCE)
    # Slurm accounts for a run when its job has ended; its epilog may still be to come.
    wait_for(lambda: not still_held(site), "every node has its GPUs back", within=PATIENCE)
    # A series that has ended is shown for two intervals, and the ledger waits for what comes late.
    site.sleep(SETTLED)
    allowed = bounds(accounted(site.slurm), site.loads.holds, site.blind, INTERVAL / site.time_scale)
    ledger = {int(job.removeprefix("slurm/")): seconds for job, seconds in site.ledger().items()}
    assert ledger.keys() == allowed.keys()
    wrong = {
        job: (least, ledger[job], most) for job, (least, most) in allowed.items() if not least <= ledger[job] <= most
    }
    for job in wrong:
        sys.stderr.write(site.prometheus.answer(f'workload_gpu_allocated_seconds_total{{job_id="{job}"}}[1h]') + "\n")
    assert not wrong, f"GPU-seconds in the ledger outside of what Slurm accounts for: {wrong}"
