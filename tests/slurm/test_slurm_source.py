"""What the alerter reads of a real Slurm, by slurmrestd and by the commands: the same, and the truth."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from dutycycle_alerter.fleet_now import FleetGpus
from dutycycle_alerter.slurm import rest
from dutycycle_alerter.slurm.facts import JobFacts, facts_of, settled
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.fleet_hours import fleet_gpus
from dutycycle_alerter.slurm.model import ExitCode, FinalFigures, JobState, Snapshot
from dutycycle_alerter.slurm.rest import Slurmrestd
from dutycycle_alerter.slurm.sacct import DELIMITER
from dutycycle_alerter.slurm.watching import Watch
from tests.exporter.daemon import eventually

from .asking import (
    GAMES,
    MAIL,
    NEWS,
    WAYS,
    Connect,
    in_state,
    ours,
    owners,
    snapshot,
    told,
    undisturbed,
    wait,
)
from .cluster import GPUS, NODES, SHARED_NODE, Cluster
from .truth import slurm_owners


@pytest.fixture(autouse=True)
def no_jobs(cluster: Cluster) -> Iterator[None]:
    """Every test begins and ends with a free cluster. Instead of the fixture that needs exporters, too."""
    yield
    cluster.cancel_all()
    eventually(lambda: cluster.idle() == len(NODES), "all nodes are free")


def test_every_way_tells_the_same_and_what_slurm_shows(slurm: Cluster, by: Connect) -> None:
    comment = 'see wiki; dutycycle:expect-uneven,ignore=stalled é"\\'
    wide = slurm.submit(
        MAIL, "-N2", "-n2", "-w", "n1,n2", "--gres=gpu:6", "--mem=64", "-t", "90", f"--comment={comment}"
    )
    array = slurm.submit(GAMES, "-w", "n3", "--array=1-3%2", "--gres=gpu:1")
    parts = slurm.submit(NEWS, "--gres=gpu:1", ":", "-n1", "--gres=gpu:2")
    slurm.run_as(NEWS, "salloc", "--no-shell", "-n1", "-w", "n4", "--gres=gpu:1")
    waiting = slurm.submit(NEWS, "-N4", "-n4", "--gres=gpu:8", "--array=1-5")
    held = slurm.submit(GAMES, "--hold", "--gpus-per-node=2", "-N2", "-n2")
    watches = [by(way) for way in WAYS]
    running = 1 + 2 + 2 + 1

    def settled_down(shot: Snapshot) -> bool:
        return sum(job.state is JobState.RUNNING for job in shot.jobs.values()) == running

    wait(watches[0], settled_down, "six jobs run")
    first, *others = undisturbed(watches)
    assert owners(first) == slurm_owners(slurm.scontrol("--oneliner", "show", "job", "-d"))
    for other in others:
        assert (other.jobs, other.nodes, other.pending) == (first.jobs, first.nodes, first.pending)
        assert not other.nonsense
    assert not first.nonsense
    assert first.nodes_error == ""
    job = first.jobs[wide]
    assert (job.user, job.partition, job.limit, job.nodes) == (MAIL, "gpu", 90 * 60, ("n1", "n2"))
    assert (job.gpus_allocated, job.gpus_requested, job.gpu_types) == (12, 12, {"h100": 12})
    assert (job.memory_allocated, job.batch, job.comment) == (2 * 64 * 2**20, True, comment)
    shown = {job.shown_id for job in first.jobs.values() if job.state is JobState.RUNNING}
    assert {f"{array}_1", f"{array}_2", f"{parts}+0", f"{parts}+1"} <= shown
    [interactive] = [job for job in first.jobs.values() if job.batch is False]
    assert (interactive.user, interactive.gpus_allocated) == (NEWS, 1)
    assert first.jobs[waiting].tasks == 5
    asked = {(request.reason, request.jobs, request.gpus) for request in first.pending}
    assert {("JobHeldUser", 1, 4), ("JobArrayTaskLimit", 1, 1)} <= asked
    assert sum(request.gpus for request in first.pending if request.reason not in ("JobHeldUser", "JobArrayTaskLimit"))
    assert sum(request.gpus for request in first.pending) == 4 + 1 + 5 * 32
    assert held in first.jobs
    assert {node.hostname for node in first.nodes.values()} == {"localhost"}, "which is nobody's name of a node"
    facts = facts_of(first, [ours(job)])[f"slurm/{wide}"]
    assert facts.declarations.expect_uneven
    assert facts.declarations.ignore == {"stalled"}
    assert not facts.ended


def test_older_versions_tell_the_same(slurm: Cluster, by: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    job = slurm.submit(MAIL, "-N2", "-n2", "--gres=gpu:3", "--begin=now+1")
    waiting = slurm.submit(NEWS, "--hold", "--array=1-3", "--gres=gpu:1")
    newer = by("tcp")
    running = wait(newer, in_state(job, JobState.RUNNING), "it runs")
    newer.ended([job], time.time())
    versions = ("v0.0.36", "v0.0.37")
    older = []
    for version in versions:
        monkeypatch.setattr(rest, "VERSIONS", (version,))
        older.append(by("tcp"))
        then = snapshot(older[-1])
        assert not older[-1].ended([job], time.time())
        assert then.jobs[job].gpus == running.jobs[job].gpus
        assert then.jobs[waiting].tasks == 3
        shown = {node.name: (node.gpus, node.hostname, node.down) for node in then.nodes.values()}
        assert shown == dict.fromkeys(NODES, (GPUS, "localhost", False))
        assert not then.nonsense
    slurm.cancel(str(job))
    since = time.time() - 3600
    [new] = eventually(lambda: newer.ended([job], since).get(job, ()), "slurmdbd knows of its end")
    for watch in older:
        [old] = eventually(partial(told, watch, job), "by the older version, too")
        assert (old.start, old.end, old.gpus, old.elapsed) == (new.start, new.end, new.gpus, new.elapsed)
        assert snapshot(watch).jobs[job].end == new.end


def test_jobs_that_share_gpus_by_shards_hold_none_whole(slurm: Cluster, by: Connect) -> None:
    job = slurm.submit(MAIL, "-w", SHARED_NODE, "--gres=shard:1")
    for way in ("tcp", "commands"):
        shot = wait(by(way), in_state(job, JobState.RUNNING), "it runs")
        assert shot.jobs[job].gpus == {}
        assert not shot.nonsense


def test_a_name_that_is_no_utf_8_hides_no_job(slurm: Cluster, by: Connect) -> None:
    named = slurm.submit(MAIL, "--hold", "--job-name=caf\udce9", "--gres=gpu:1")
    other = slurm.submit(GAMES, "--gres=gpu:1")
    for way in ("tcp", "commands"):
        shot = wait(by(way), in_state(other, JobState.RUNNING), "the other runs")
        assert shot.jobs[named].name == "caf\ufffd"


def test_how_jobs_ended_and_what_they_used(slurm: Cluster, by: Connect) -> None:
    done = slurm.submit(
        GAMES, "--gres=gpu:2", "--mem=200", script="sleep 1; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    )
    forged = f"x\n{done}{DELIMITER}{done}{DELIMITER}FAILED\n"
    failed = slurm.submit(MAIL, "--gres=gpu:1", f"--job-name={forged}", f"--comment={forged}", script="exit 3")
    ended = slurm.submit(NEWS, "--gres=gpu:4")
    restd, commands = by("tcp"), by("commands")
    shot = wait(restd, in_state(ended, JobState.RUNNING), "the third runs")
    slurm.cancel(str(ended))
    jobs = (done, failed, ended)
    shot = wait(restd, lambda s: all(in_state(job, JobState.ENDED)(s) for job in jobs), "all have ended")
    now = time.time()
    facts = facts_of(shot, [ours(shot.jobs[job]) for job in jobs])
    assert [facts[f"slurm/{job}"].outcome for job in jobs] == ["COMPLETED", "FAILED", "CANCELLED"]
    assert [shot.jobs[job].exit_code for job in (done, failed)] == [ExitCode(0), ExitCode(3)]
    assert all(fact.ended and abs((fact.ended_at or 0) - now) < 3600 for fact in facts.values())

    def figures(watch: Watch) -> dict[int, FinalFigures]:
        found = watch.ended(jobs, now - 3600)
        return {job: runs[-1] for job, runs in found.items()}

    eventually(lambda: len(figures(restd)) == 3, "slurmdbd knows of all")
    told = figures(restd)
    also = figures(commands)
    for job in jobs:
        one, other = told[job], also[job]
        names = ("state", "start", "end", "elapsed", "gpus", "cpus", "memory", "nodes", "partition", "cluster")
        assert [getattr(one, name) for name in names] == [getattr(other, name) for name in names]
        assert (one.start, one.end) == (shot.jobs[job].start, shot.jobs[job].end)
    assert [told[job].gpus for job in jobs] == [2, 1, 4]
    assert shot.jobs[failed].name == forged, "which forges no row of sacct's"
    assert told[done].gpu_seconds == 2 * ((told[done].end or 0) - (told[done].start or 0)) > 0
    assert (also[failed].exit_code, told[failed].exit_code) == (ExitCode(3), ExitCode()), "22.05 tells REST no status"
    assert (also[done].cpu_seconds or 0) > 0
    assert told[done].max_rss == also[done].max_rss
    after = settled(facts[f"slurm/{failed}"], ours(shot.jobs[failed]), [told[failed]])
    assert (after.final, after.outcome) == (told[failed], "FAILED")
    assert restd.ended([2**30], now - 3600) == {}


def test_a_requeued_job_ends_one_run_and_begins_another(slurm: Cluster, by: Connect) -> None:
    watch = by("tcp")
    job = slurm.submit(NEWS, "--requeue", "--gres=gpu:1")
    first = wait(watch, in_state(job, JobState.RUNNING), "it runs").jobs[job]
    slurm.scontrol("requeue", str(job))

    def fact(shot: Snapshot, start: float | None = None) -> JobFacts:
        return facts_of(shot, [ours(first, start)], clocks_apart=1)[f"slurm/{job}"]

    shot = wait(watch, lambda s: fact(s).ended, "its first run is over")
    assert fact(shot).outcome == "REQUEUED"
    again = wait(watch, in_state(job, JobState.RUNNING), "it runs again")
    second = again.jobs[job]
    assert first.start is not None
    assert second.start is not None
    assert second.start > first.start
    assert second.restarts == 1
    assert fact(again).ended
    assert not fact(again, second.start).ended
    assert not fact(shot, second.start).ended, "an answer of before tells nothing of the run that began later"
    begun = first.start
    runs = eventually(lambda: watch.ended([job], begun).get(job, ()), "slurmdbd knows of the first")
    after = settled(fact(shot), ours(first), runs)
    assert (after.outcome, after.start) == ("REQUEUED", first.start)
    assert after.ended_at is not None
    assert first.start <= after.ended_at <= second.start
    assert settled(fact(again, second.start), ours(second), runs, clocks_apart=1).final is None


def test_a_drained_node_and_one_that_is_down(slurm: Cluster, by: Connect) -> None:
    job = slurm.submit(MAIL, "-w", "n1", "--gres=gpu:3")
    watches = by("tcp"), by("commands")
    wait(watches[0], in_state(job, JobState.RUNNING), "it runs")
    slurm.scontrol("update", "NodeName=n1", "State=DRAIN", 'Reason=a "bad" fan')
    slurm.scontrol("update", "NodeName=n2", "State=DOWN", "Reason=gone")
    try:
        for watch in watches:
            shot = wait(watch, lambda s: s.nodes["n1"].draining and s.nodes["n2"].down, "both are out of service")
            assert shot.nodes["n1"].reason == 'a "bad" fan'
            found = fleet_gpus(shot)
            assert found is not None
            assert replace(found, away=()) == FleetGpus(shot.at, 32, 3, 16, 5, 8)
            assert {name for node in found.away for name in node.names} >= {"n1", "n2"}
    finally:
        for node in ("n1", "n2"):
            slurm.scontrol("update", f"NodeName={node}", "State=RESUME")
    wait(watches[0], lambda s: not s.nodes["n1"].draining and not s.nodes["n2"].down, "both are in service")


def test_nothing_new_is_not_read_again(slurm: Cluster, by: Connect) -> None:
    job = slurm.submit(GAMES, "--gres=gpu:1")
    watch = by("tcp", full_interval="1h")
    wait(watch, in_state(job, JobState.RUNNING), "it runs")
    way = watch._way
    assert isinstance(way, Slurmrestd)
    # slurmctld compares with the time of its last change.
    assert way.jobs(int(time.time()) + 3600, Nonsense()) is None
    assert way.jobs(1, Nonsense()) is not None
    slurm.cancel(str(job))
    eventually(lambda: watch.snapshot(time.time()).jobs[job].state is JobState.ENDED, "its end is seen")
