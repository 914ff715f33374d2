"""A Slurm of which parts are down, hang or refuse: the alerter is told nothing then, and why."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.slurm.facts import facts_of
from dutycycle_alerter.slurm.model import JobState
from tests.exporter.daemon import eventually

from .asking import (
    GAMES,
    MAIL,
    VIEWER,
    Connect,
    in_state,
    ours,
    refusals,
    snapshot,
    told,
    wait,
)
from .cluster import GPUS, NODES, Cluster


@pytest.fixture(autouse=True)
def no_jobs(cluster: Cluster) -> Iterator[None]:
    """Every test begins and ends with a free cluster. Instead of the fixture that needs exporters, too."""
    yield
    cluster.cancel_all()
    eventually(lambda: cluster.idle() == len(NODES), "all nodes are free")


def test_while_slurm_is_down_nothing_ends_and_afterwards_all_is_as_before(slurm: Cluster, by: Connect) -> None:
    job = slurm.submit(MAIL, "-w", "n2", "--gres=gpu:2")
    watches = by("tcp"), by("commands")
    before = wait(watches[0], in_state(job, JobState.RUNNING), "it runs").jobs[job]
    slurm.stop("slurmdbd")
    try:
        told_without = [snapshot(watch).jobs[job].state for watch in watches]
        slurm.stop("slurmctld")
        asking = [partial(snapshot, watch) for watch in watches]
        said = refusals([*asking, *(partial(watch.ended, [job], time.time() - 60) for watch in watches)])
    finally:
        slurm.start_slurmdbd()
        slurm.start_slurmctld()
    assert told_without == [JobState.RUNNING] * 2, "without slurmdbd jobs are told all the same"
    assert re.search(r"slurmrestd at http.*answered 500.*Is slurmctld up", said[0])
    assert re.search(r"squeue --json: .*Is slurmctld up", said[1])
    assert re.search(r"slurmrestd at http.*/slurmdb/", said[2])
    assert said[3].startswith("sacct")
    assert facts_of(None, [ours(before)]) == {}
    for watch in watches:
        again = snapshot(watch)
        assert replace(again.jobs[job], reason="") == replace(before, reason="")
        assert not facts_of(again, [ours(before)])[f"slurm/{job}"].ended
    slurm.cancel(str(job))
    for watch in watches:
        [run] = eventually(partial(told, watch, job), "it was told when slurmdbd was there again")
        assert run.state == "CANCELLED"


def test_slurmrestd_that_hangs_is_killed_and_comes_back(slurm: Cluster, by: Connect) -> None:
    job = slurm.submit(GAMES, "-w", "n1", f"--gres=gpu:{GPUS}")
    watch, impatient = by("unix"), by("tcp", timeout="300ms")
    wait(watch, in_state(job, JobState.RUNNING), "it runs")
    slurm.signal("slurmrestd", signal.SIGSTOP)
    with pytest.raises(SourceError, match=r"no complete answer within 0\.3 s"):
        snapshot(impatient)
    slurm.signal("slurmrestd", signal.SIGCONT)
    assert snapshot(watch).jobs[job].state is JobState.RUNNING
    slurm.stop("slurmrestd", signal.SIGKILL)
    with pytest.raises(SourceError, match=r"slurmrestd at unix://.*refused"):
        snapshot(watch)
    slurm.start_slurmrestd()
    assert snapshot(watch).jobs[job].state is JobState.RUNNING


@pytest.mark.parametrize("way", ["tcp", "unix"])
def test_a_token_that_is_missing_wrong_or_anothers(slurm: Cluster, by: Connect, tmp_path: Path, way: str) -> None:
    file = tmp_path / "wrong"
    for token, why in (
        (re.sub(r".{5}$", "AAAAA", slurm.token(VIEWER)), "answered 500"),
        ("eyJhbGciOiJIUzI1NiJ9.e30.AAAA", "answered 500"),
        (slurm.token(MAIL), "answered 500"),
    ):
        file.write_text(token)
        with pytest.raises(SourceError, match=rf"{why}.*slurm\.token_file"):
            snapshot(by(way, token_file=file))
    file.write_text(slurm.token(VIEWER, 3600))
    watch = by(way, token_file=file)
    assert snapshot(watch).nodes_error == ""
    with pytest.raises(SourceError, match=r"answered 401.*slurm\.token_file"):
        snapshot(by(way, token_file=None))
