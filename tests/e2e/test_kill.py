"""Processes are killed at any moment, and NVML hangs: no incident is lost or doubled, nothing healthy is accused, and
the usage that is lost is at most the downtime and one scrape interval for each kill, and what new series still held.
"""

import random
import sqlite3
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.site import INTERVAL, Alerter, Exporter, Site, wait_for
from tests.fakes.cgroup import Use
from tests.fakes.node import Work
from tests.fakes.nvml import IDLE, Level, Libraries, Steps

TIME_SCALE = 30.0
MINUTE = 60.0
HOLD = 30.0
"""Seconds for which the exporter holds new series at 0, by default."""
KILLS = 5
"""Of each process, while incidents open and again while they resolve."""
PATIENCE = 240
"""Wall seconds."""


def incidents(alerter: Alerter) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = alerter.get("/api/v1/incidents?limit=200")["incidents"]
    return found


def states(alerter: Alerter) -> list[tuple[str, str, str]]:
    return sorted((i["subject"], i["rule"], i["state"]) for i in incidents(alerter))


def shows_gpus(exporter: Exporter) -> bool:
    return "gpu_visible{" in exporter.metrics()


def last_stored(alerter: Alerter) -> float:
    """When the newest counters were scraped that the alerter has in its store: all that two kills in a row leave.

    0 before there are any.
    """
    try:
        with closing(sqlite3.connect(f"file:{alerter.store}?mode=ro", uri=True, timeout=30)) as connection:
            found = connection.execute("SELECT max(t) FROM gpu_counter").fetchone()[0]
    except sqlite3.OperationalError:  # neither file nor table yet
        return 0.0
    return float(found or 0.0)


def kill_at_random(exporter: Exporter, alerter: Alerter, moments: random.Random) -> float:
    """Kill both some times, at moments that have nothing to do with what they do; start them again at once.

    Returns the wall seconds of which a GPU's usage may be lost for good: from the counters that were stored last before
    each kill of the exporter until it shows GPUs again.
    """
    blind = 0.0
    for process in moments.sample([exporter, alerter] * KILLS, k=2 * KILLS):
        time.sleep(moments.uniform(0.2, 3.0))
        known_until = last_stored(alerter)
        process.kill()
        process.start()
        if process is exporter:
            wait_for(partial(shows_gpus, exporter), "the exporter shows GPUs again", within=PATIENCE)
            blind += time.time() - known_until
    return blind


@pytest.mark.timeout(1500)
def test_killed_processes_lose_and_double_nothing(tmp_path: Path, nvml_libraries: Libraries) -> None:
    moments = random.Random(20)
    with Site(tmp_path, nvml_libraries, TIME_SCALE) as site:
        node = site.add_node("a", gpus=3, options=("--nvml.timeout=10s",))
        exporter, alerter = site.exporters["a"], site.alerter()
        uuids = [gpu.uuid for gpu in node.driver.gpus]
        began = time.time()
        for job_id, uuid in enumerate(uuids, start=1):
            exporter.prolog.start(job_id, [uuid], user="alice", start=began)
        stalled = Work(use=Use(cpu_cores=7.8, io_pressure=0.3))
        jobs = [
            node.slurm_job(1, {0: IDLE}),
            node.slurm_job(2, {1: Steps(2.0, 0.35)}, stalled),
            node.slurm_job(3, {2: Level(0.95)}),
        ]
        node.start()
        exporter.start()
        alerter.start()
        wait_for(lambda: last_stored(alerter), "the first counters are stored", within=PATIENCE)

        blind = kill_at_random(exporter, alerter, moments)
        expected = [("slurm/1", "idle", "open"), ("slurm/2", "stalled", "open")]
        wait_for(lambda: states(alerter) == expected, "both incidents open, once each", within=PATIENCE)

        check_that_a_hanging_nvml_accuses_nobody(site, alerter)

        for job in jobs:
            job.change(Level(0.95))
            job.use(Use(cpu_cores=1.0))
        blind += kill_at_random(exporter, alerter, moments)
        resolved = [(job, rule, "resolved") for job, rule, _ in expected]
        wait_for(lambda: states(alerter) == resolved, "both incidents resolved, once each", within=PATIENCE)
        for incident in incidents(alerter):
            kinds = [event["kind"] for event in alerter.get(f"/api/v1/incidents/{incident['id']}")["events"]]
            assert kinds[0] == "opened"
            assert kinds[-1] == "resolved"
            assert kinds.count("opened") + kinds.count("reopened") == kinds.count("resolved")
        check_usage(alerter, began, blind)


def check_that_a_hanging_nvml_accuses_nobody(site: Site, alerter: Alerter) -> None:
    """For ten minutes no call returns; the exporter answers all the same, and its child is replaced."""
    before = states(alerter)
    driver = site.nodes["a"].driver
    driver.hang("nvmlDeviceGetSamples")
    site.sleep(10 * MINUTE)
    page = site.exporters["a"].metrics()
    assert "gpu_utilization_ratio{" not in page
    assert "gpu_allocation{" in page
    driver.heal("nvmlDeviceGetSamples")
    wait_for(
        lambda: "gpu_utilization_ratio{" in site.exporters["a"].metrics(), "the GPUs are read again", within=PATIENCE
    )
    assert 'dutycycle_exporter_child_restarts_total{reason="hang"}' in site.exporters["a"].metrics()
    assert states(alerter) == before
    # What the hang delayed has been scraped and accounted for before anything is killed again.
    site.sleep(3 * MINUTE)


def check_usage(alerter: Alerter, began: float, blind: float) -> None:
    """Three GPUs were allocated all the time: the ledger lacks at most what is promised, and has nothing twice."""
    elapsed = time.time() - began
    users = alerter.get("/api/v1/users?since=1d")["users"]
    assert [user["user"] for user in users] == ["alice"]
    counted = users[0]["allocated_gpu_hours"] * 3600 / TIME_SCALE
    true = 3 * elapsed
    scrape = INTERVAL / TIME_SCALE
    # Killed again while its new series are still held at 0, an exporter takes with it what they hold.
    held = HOLD / TIME_SCALE
    # And what the last pass has not seen yet: a minute, and the scrape before it.
    lost = 3 * (blind + 2 * KILLS * held + MINUTE / TIME_SCALE + scrape)
    assert true - lost <= counted <= true * 1.01
