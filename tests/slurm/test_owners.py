"""Four exporters beside a real Slurm: at every moment every GPU's published owner is the one that Slurm says."""

import re
from pathlib import Path

import pytest

from dutycycle_exporter.attribution.cgroup import parse
from tests.exporter.daemon import eventually

from .cluster import GPUS, NODES, SHARED_NODE
from .truth import Owner

GAMES, MAIL, NEWS = "games", "mail", "news"


def jobs_of(owners):
    return {owner for found in owners.values() for owner in found}


def count(owners, job):
    return sum(any(owner.job_id == job for owner in found) for found in owners.values())


def test_jobs_of_three_users_with_single_gpus_and_whole_nodes(cluster, exporters):
    whole = cluster.submit(NEWS, "-w", "n1", f"--gres=gpu:{GPUS}")
    wide = cluster.submit(MAIL, "-N2", "-n2", "-w", "n2,n3", f"--gres=gpu:{GPUS - 2}")
    single = [cluster.submit(user, "-w", "n2", "--gres=gpu:1") for user in (GAMES, NEWS)]
    pair = cluster.submit(GAMES, "-w", "n3", "--gres=gpu:2")
    everything = {whole, wide, pair, *single}
    owners = exporters.agree(lambda owners: {o.job_id for o in jobs_of(owners)} == everything, "five jobs run")
    assert count(owners, whole) == GPUS
    assert count(owners, wide) == 2 * (GPUS - 2)
    assert count(owners, pair) == 2
    assert jobs_of(owners) == {
        Owner(whole, NEWS),
        Owner(wide, MAIL),
        Owner(pair, GAMES),
        Owner(single[0], GAMES),
        Owner(single[1], NEWS),
    }
    cluster.cancel(str(wide))
    exporters.agree(lambda owners: count(owners, wide) == 0, "the wide job has ended")
    waiting = cluster.submit(GAMES, "-w", "n1", "--gres=gpu:3")
    cluster.cancel(str(whole))
    exporters.agree(lambda owners: count(owners, waiting) == 3, "the next job has a part of the node")


def test_a_job_that_ends_by_itself(cluster, exporters):
    done = cluster.directory / "done"
    job = cluster.submit(MAIL, "--gres=gpu:2", script=f"until [ -e {done} ]; do sleep 0.1; done")
    exporters.agree(lambda owners: count(owners, job) == 2, "it runs")
    done.touch()
    exporters.agree(lambda owners: count(owners, job) == 0, "it has ended")


def test_each_task_of_an_array_is_a_job(cluster, exporters):
    array = cluster.submit(GAMES, "--array=3-8%4", "--gres=gpu:1")
    first = jobs_of(exporters.agree(lambda owners: len(jobs_of(owners)) == 4, "four tasks run"))
    assert {owner.user for owner in first} == {GAMES}
    cluster.cancel(f"{array}_3", f"{array}_4")
    exporters.agree(lambda owners: len(jobs_of(owners) - first) == 2, "the last two tasks run")


def test_a_requeued_job_begins_anew(cluster, exporters):
    job = cluster.submit(NEWS, "--requeue", "--gres=gpu:1", "--account=physics")
    owners = exporters.agree(lambda owners: count(owners, job) == 1, "the job runs")
    [(node, _)] = owners
    started = prolog_file(cluster, node, job)
    assert '"restarts": 0' in started
    # Held: else it might run again before anybody has seen it wait.
    cluster.scontrol("requeuehold", str(job))
    exporters.agree(lambda owners: count(owners, job) == 0, "the job waits again")
    cluster.scontrol("release", str(job))
    [(node, _)] = exporters.agree(lambda owners: count(owners, job) == 1, "the job runs again")
    assert prolog_file(cluster, node, job) != started
    assert '"restarts": 1' in prolog_file(cluster, node, job)


def prolog_file(cluster, node, job):
    [file] = (cluster.node_directory(node) / "prolog").glob(f"*.{job}.json")
    return file.read_text()


def test_a_slurmd_that_restarts_changes_no_owner(cluster, exporters):
    job = cluster.submit(MAIL, "-w", "n2", "--gres=gpu:4")
    ending = cluster.submit(GAMES, "-w", "n2", "--gres=gpu:1")
    owners = exporters.agree(lambda owners: len(jobs_of(owners)) == 2, "two jobs run")
    cluster.stop_slurmd("n2")
    assert exporters.agree(lambda owners: True, "nothing changes while it is away") == owners
    cluster.start_slurmd("n2")
    eventual = cluster.submit(NEWS, "-w", "n2", "--gres=gpu:1")
    exporters.agree(lambda owners: count(owners, eventual) == 1, "it takes jobs again")
    cluster.stop_slurmd("n2")
    cluster.cancel(str(ending))
    eventually(lambda: "COMPLETING" in cluster.scontrol("show", "job", str(ending)), "the epilog is due")
    assert count(exporters.published(), ending) == 1, "until then Slurm gives the GPU to nobody else"
    cluster.start_slurmd("n2")
    owners = exporters.agree(lambda owners: count(owners, ending) == 0, "its epilog has run")
    assert count(owners, job) == 4


def test_an_exporter_that_restarts_knows_every_owner(cluster, exporters):
    job = cluster.submit(MAIL, "-w", "n3", "--gres=gpu:3", "--account=physics")
    exporters.agree(lambda owners: count(owners, job) == 3, "the job runs")
    before = [line for line in exporters.metrics("n3").splitlines() if line.startswith("gpu_allocation_start")]
    exporters.restart("n3")
    eventually(lambda: "\ngpu_visible{" in exporters.metrics("n3"), "it has read NVML")
    exporters.agree(lambda owners: True, "nothing has changed")
    after = [line for line in exporters.metrics("n3").splitlines() if line.startswith("gpu_allocation_start")]
    assert (len(after), after) == (3, before)


def test_what_an_epilog_left_ends_with_the_next_job(cluster, exporters):
    lost = cluster.submit(GAMES, "-w", "n1", f"--gres=gpu:{GPUS}")
    exporters.agree(lambda owners: count(owners, lost) == GPUS, "the job runs")
    with cluster.without_epilog():
        cluster.cancel(str(lost))
        eventually(lambda: not cluster.has(lost), "Slurm is done with the job")
    job = cluster.submit(NEWS, "-w", "n1", f"--gres=gpu:{GPUS}")
    exporters.agree(lambda owners: count(owners, job) == GPUS, "the next job runs")


def test_the_parts_of_a_heterogeneous_job_are_jobs(cluster, exporters):
    job = cluster.submit(GAMES, "--gres=gpu:1", ":", "-n1", "--gres=gpu:2")
    owners = exporters.agree(lambda owners: len(jobs_of(owners)) == 2, "both parts run")
    assert (count(owners, job), count(owners, job + 1)) == (1, 2)


def test_jobs_that_share_a_gpu_by_shards_each_own_it(cluster, exporters):
    jobs = [cluster.submit(user, "-w", SHARED_NODE, "--gres=shard:1") for user in (GAMES, MAIL, NEWS) * 4]
    owners = exporters.agree(lambda owners: {o.job_id for o in jobs_of(owners)} == set(jobs), "twelve jobs run")
    assert sum(len(found) for found in owners.values()) == 12
    assert max(len(found) for found in owners.values()) == 2
    cluster.cancel(*map(str, jobs[::2]))
    exporters.agree(lambda owners: len(jobs_of(owners)) == 6, "half of them have ended")


def test_hostile_names_do_nothing(cluster, exporters, tmp_path):
    mark = Path("/tmp") / f"{tmp_path.name}-mark"
    account = f'a","uid":0,$(touch {mark})`touch {mark}`;\\'
    job = cluster.submit(
        MAIL, "--gres=gpu:1", f"--account={account}", f"--job-name=$(touch {mark})\";'", "--comment=\x1b"
    )
    owners = exporters.agree(lambda owners: count(owners, job) == 1, "the job runs")
    [(node, _)] = owners
    text = exporters.metrics(node)
    assert 'account="' + account.lower().replace("\\", "\\\\").replace('"', '\\"') + '"' in text
    assert not mark.exists()


def test_the_labels_of_an_allocation(cluster, exporters):
    job = cluster.submit(GAMES, "--gres=gpu:1", "--account=physics")
    [(node, _)] = exporters.agree(lambda owners: count(owners, job) == 1, "the job runs")
    [line] = [line for line in exporters.metrics(node).splitlines() if line.startswith("gpu_allocation{")]
    for label in (f'workload="slurm/{job}"', 'scheduler="slurm"', 'account="physics"', 'partition="gpu"'):
        assert label in line
    assert set(NODES) >= {node}


def test_a_job_without_a_process_on_a_gpu_has_the_cgroups_of_its_node(cluster, exporters):
    if not cluster.cgroups:
        pytest.skip("jobs have no cgroups: Slurm 22.05 wants systemd for version 2")
    job = cluster.submit(GAMES, "--gres=gpu:1", script="for i in {1..20000}; do :; done; exec sleep 3600")
    [(node, _)] = exporters.agree(lambda owners: count(owners, job) == 1, "it runs")
    used = rf'^workload_cpu_seconds_total\{{.*workload="slurm/{job}".*\}} [0-9.e-]*[1-9]'
    eventually(lambda: re.search(used, exporters.metrics(node), re.MULTILINE), "its CPU time is published")


def test_the_cgroup_of_a_jobs_process_tells_its_job(cluster, exporters):
    if not cluster.cgroups:
        pytest.skip("jobs have no cgroups: Slurm 22.05 wants systemd for version 2")
    answer = cluster.directory / "answers" / "cgroup"
    answer.parent.mkdir()
    answer.parent.chmod(0o777)
    script = f"cat /proc/self/cgroup > {answer}.new; mv {answer}.new {answer}; exec sleep 3600"
    job = cluster.submit(NEWS, "--gres=gpu:1", script=script)
    exporters.agree(lambda owners: count(owners, job) == 1, "it runs")
    group = parse(eventually(lambda: answer.read_text() if answer.exists() else ""))
    assert (group.scheduler, group.id) == ("slurm", str(job))
    assert {path.split("/")[1].startswith("slurm_n") for _, path in group.paths} == {True}
