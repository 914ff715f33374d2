"""Kubernetes' word in a pass: pods become jobs, whose they are, and what the fleet is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutycycle_alerter.fleet_now import AwayNode, FleetGpus, FleetPart
from dutycycle_alerter.kubernetes.model import Node, Owner, Reference, Snapshot, Standing
from dutycycle_alerter.kubernetes.workloads import KubernetesWorkloads
from dutycycle_alerter.model import Evidence, Gpu, JobKind, job_id
from dutycycle_alerter.settings import KubernetesCluster, Settings
from dutycycle_alerter.views import WatchCounts
from tests.alerter.cases import LATER, evidence
from tests.alerter.devices import device
from tests.alerter.kubernetes.podcases import TRAIN, known, part, pod
from tests.alerter.kubernetes.words import JOB, Told, jobs, word

SLURMD = {"app.kubernetes.io/name": "slurmd"}


# Which pods are one job


def test_pods_of_one_owner_are_one_job_under_its_name_and_its_users() -> None:
    pods = [pod(n, cpus=4.0, memory=2.0**30, labels={"team": "nlp"}) for n in range(8)]
    owner = replace(TRAIN, annotations={"dutycycle.io/user": "alice"})
    [found] = jobs(known(*pods, owner=owner), *(part(one, 0.5) for one in pods))
    job = found.job
    assert (job.id, job.user, job.name, job.owner, job.namespace) == (JOB, "alice", "bert", "PyTorchJob", "ml")
    assert job.owner_group == "kubeflow.org"
    assert (len(job.gpus), job.cpus, job.memory, job.kind) == (8, 32.0, 2.0**33, JobKind.BATCH)
    assert job.labels["team"] == "nlp"


def test_a_pod_that_nobody_owns_is_a_job_by_itself_under_the_exporters_name() -> None:
    alone = pod(0, owner=None)
    [found] = jobs(known(alone, owner=Owner("ml", "Pod", alone.name, alone.uid)), part(alone, 0.5))
    assert (found.job.id, found.job.owner) == (alone.workload, "Pod")
    assert [gpu.label for gpu in found.job.gpus] == ["node0:0"]


def test_a_pod_of_which_the_owner_is_not_known_yet_hides_the_jobs_that_it_may_be_part_of() -> None:
    one, other, elsewhere = pod(0), pod(1), pod(2, namespace="cv")
    snapshot = known(one, other, elsewhere)
    snapshot = replace(snapshot, owners={one.uid: TRAIN, elsewhere.uid: replace(TRAIN, namespace="cv", uid="owner-2")})
    workloads = KubernetesWorkloads(KubernetesCluster(), Told(snapshot), Settings())
    everything = Evidence(jobs=[part(pod_, 0.0) for pod_ in (one, other, elsewhere)])
    for now, shown in ((LATER, {"ml": False, "cv": True}), (LATER + 601, {"ml": True, "cv": True})):
        found = workloads.ask(now, [], []).completed(everything).jobs
        visible = {item.job.namespace: item.visible for item in found if item.job.owner}
        assert visible == shown
        # A part is never judged for the whole.
        assert [item.visible for item in found if not item.job.owner] == [False]


def test_where_nothing_was_ever_told_nothing_can_be_seen() -> None:
    one = pod(0)
    assert [(item.job.id, item.visible) for item in jobs(Snapshot(), part(one, 0.0))] == [(one.workload, False)]


def test_a_running_pod_whose_exporter_shows_nothing_hides_the_job() -> None:
    one, other = pod(0), pod(1, node="node1")
    assert [item.visible for item in jobs(known(one, other), part(one, 0.0))] == [False]
    waiting = replace(other, phase="Pending", node="")
    assert [item.visible for item in jobs(known(one, waiting), part(one, 0.0))] == [True]
    over = replace(other, phase="Succeeded")
    assert [item.visible for item in jobs(known(one, over), part(one, 0.0))] == [True]


def test_a_pod_that_the_exporter_knows_by_name_only_is_the_one_that_has_it_now() -> None:
    former = pod(0, uid="former", gone=True)
    now = pod(0, uid="now")
    nameless = part(now, 0.5)
    nameless = replace(nameless, job=replace(nameless.job, id="k8s/ml/bert-worker-0/"))
    [found] = jobs(known(former, now), nameless)
    assert (found.job.id, found.ended) == (JOB, None)


def test_a_pod_that_is_made_anew_under_its_name_is_another_run_of_its_job() -> None:
    former = pod(0, uid="former", gone=True, deleted=LATER - 600)
    now = pod(0, uid="now")
    later = LATER - 300
    parts = [part(former, 0.0), part(now, 0.9, start=later, first_process=None)]
    [found] = jobs(known(former, now), *parts)
    assert (found.ended, found.job.start, len(found.job.gpus)) == (None, later, 1)


@pytest.mark.parametrize(("cluster", "grouped"), [("", True), ("north", True), ("south", False)])
def test_only_pods_of_its_cluster_are_its_own(cluster: str, *, grouped: bool) -> None:
    one = pod(0)
    item = part(one, 0.5, cluster="north")
    item = replace(item, job=replace(item.job, id=job_id("north", one.workload)))
    [found] = jobs(known(one), item, cluster=cluster)
    assert (found.job.id == f"north/{JOB}") is grouped


def test_jobs_of_other_schedulers_pass_untouched() -> None:
    slurm = evidence([0.5])
    assert jobs(known(pod(0)), slurm) == [slurm]


def test_a_device_is_held_by_the_job_and_not_by_its_pod() -> None:
    one = pod(0)
    gpus = [device(Gpu("node0", "0", "GPU-node0-0"), jobs=(one.workload, "slurm/7"))]
    found = word(known(one)).completed(Evidence(jobs=[part(one, 0.5)], gpus=gpus))
    assert [item.jobs for item in found.gpus] == [(JOB, "slurm/7")]


def test_pods_that_are_nodes_of_another_scheduler_hold_nothing() -> None:
    one = pod(0, name="slurmd-0", labels=SLURMD)
    gpus = [device(Gpu("node0", "0", "GPU-node0-0"), jobs=(one.workload,))]
    said = word(known(one, owner=Owner("ml", "NodeSet", "slurmd", "owner-2", labels=SLURMD)))
    found = said.completed(Evidence(jobs=[part(one, 0.0)], gpus=gpus))
    assert (list(found.jobs), [item.jobs for item in found.gpus]) == ([], [()])
    assert said.other_names() == {"slurmd-0": "node0"}


def test_what_a_job_and_its_pods_say_of_themselves_counts() -> None:
    one = pod(0, annotations={"dutycycle.io/ignore": "stalled"})
    owner = replace(TRAIN, annotations={"dutycycle.io/expect-uneven": "true"})
    said = word(known(one, owner=owner))
    [declared] = said.declared(said.completed(Evidence(jobs=[part(one, 0.5)]))).items()
    assert declared[0] == JOB
    assert (declared[1].expect_uneven, declared[1].ignore) == (True, {"stalled"})


def test_troubles_of_pods_are_the_jobs() -> None:
    looping = pod(0, waiting="CrashLoopBackOff", restarts=12)
    left_out = pod(1, phase="Pending", node="", waiting="Unschedulable")
    [found] = jobs(known(looping, left_out), part(looping, 0.0))
    assert found.job.troubles == (
        (
            "Kubernetes says CrashLoopBackOff of pod bert-worker-0: its container ends and is started again, "
            "12 restarts so far."
        ),
        (
            "Kubernetes says Unschedulable of pod bert-worker-1: no node has room for it, and the other pods may wait "
            "for it."
        ),
    )


def test_that_a_jobs_node_is_dead_and_that_its_start_takes_long_are_its_troubles() -> None:
    starts = pod(0, starting=Standing("get-model", "", LATER - 601))
    snapshot = known(starts, nodes={"node0": Node("node0", ready=False, gpus=8)})
    [found] = jobs(snapshot, part(starts, 0.0))
    assert ["get-model" in found.job.troubles[0], "node0" in found.job.troubles[1]] == [True, True]


def test_a_name_that_somebody_else_wrote_down_is_not_believed() -> None:
    """An exporter's uid may be what a pod's user wrote; owner references may name another's object."""
    victim = pod(0)
    evil = pod(9, namespace="evil", uid="evil-9")
    claimed = part(evil, 0.0)
    claimed = replace(claimed, job=replace(claimed.job, id="k8s/evil/bert-worker-9/uid-0"))
    found = jobs(known(victim), part(victim, 0.9), claimed)
    assert [(item.job.id, len(item.job.gpus)) for item in found if item.visible] == [(JOB, 1)]
    forged = Owner("evil", "Foo", "x", TRAIN.uid, annotations={"dutycycle.io/ignore": "idle"})
    said = word(replace(known(victim, evil), owners={victim.uid: TRAIN, evil.uid: forged}))
    whole = said.completed(Evidence(jobs=[part(victim, 0.0), part(evil, 0.0)]))
    assert [item.visible for item in whole.jobs] == [True, True]
    assert said.declared(whole)[JOB].ignore == frozenset()


def test_a_static_pod_is_found_by_its_mirror() -> None:
    mirror = pod(
        0,
        uid="of-the-mirror",
        owner=Reference("v1", "Node", "node0", "node-uid"),
        annotations={"kubernetes.io/config.hash": "of-the-kubelet"},
    )
    shown = replace(part(mirror, 0.5))
    shown = replace(shown, job=replace(shown.job, id="k8s/ml/bert-worker-0/of-the-kubelet"))
    snapshot = known(mirror, owner=Owner("ml", "Pod", mirror.name, mirror.uid))
    assert [item.visible for item in jobs(snapshot, shown)] == [True]
    no_mirror = replace(mirror, owner=None)
    assert [item.visible for item in jobs(known(no_mirror), shown)] == [False]


def test_pods_under_a_pod_are_named() -> None:
    """Spark's executors belong to their driver."""
    driver, executor = pod(0, owner=None), pod(1)
    owner = Owner("ml", "Pod", driver.name, driver.uid)
    [found] = jobs(known(driver, executor, owner=owner), part(driver, 0.5), part(executor, 0.5))
    assert [gpu.pod for gpu in found.job.gpus] == ["bert-worker-0", "bert-worker-1"]


def test_a_pod_that_the_api_server_does_not_know_hides_the_jobs_of_its_namespace_for_a_while() -> None:
    one, stranger = pod(0), pod(1)
    workloads = KubernetesWorkloads(KubernetesCluster(), Told(known(one)), Settings())
    both = Evidence(jobs=[part(one, 0.0), part(stranger, 0.9)])
    for now, shown in ((LATER, False), (LATER + 601, True)):
        said = workloads.ask(now, [], [])
        assert {item.job.id: item.visible for item in said.completed(both).jobs}[JOB] is shown
        # In the first evaluation after a start, exporters still show pods that ended meanwhile.
        assert ("1 (in ml)" in said.targets[0].note) is (now > LATER)
    silent = KubernetesWorkloads(KubernetesCluster(), Told(replace(known(one), fresh=False)), Settings())
    for now in (LATER, LATER + 601):
        assert not any(item.visible for item in silent.ask(now, [], []).completed(both).jobs)


def test_a_pod_that_nobody_shows_yet_is_left_out_and_one_that_should_be_seen_hides_the_job() -> None:
    old = [pod(n) for n in range(2)]
    parts = [part(one, value) for one, value in zip(old, (0.9, 0.1), strict=True)]
    [young] = jobs(known(*old, pod(2, started=LATER - 60)), *parts)
    assert (young.visible, young.left_out) == (True, 1)
    [unseen] = jobs(known(*old, pod(2, started=LATER - 900)), *parts)
    assert (unseen.visible, unseen.unseen) == (False, "1 of its pods run, and no exporter shows them")
    [lost] = jobs(known(*old, pod(2, deleted=LATER - 900)), *parts)
    assert (lost.visible, lost.left_out) == (True, 0)


def test_a_claim_is_for_gpus_where_those_of_its_siblings_are() -> None:
    claims = {"gpus": 0, "claims": ("gpu",)}
    one, unseen = pod(0, **claims), pod(1, **claims)
    assert [item.visible for item in jobs(known(one, unseen), part(one, 0.0))] == [False]
    plain, other = pod(0), pod(1, **claims)
    assert [item.visible for item in jobs(known(plain, other), part(plain, 0.0))] == [True]


def test_a_job_whose_next_pod_has_not_begun_is_not_over() -> None:
    former = pod(0, phase="Failed", finished=LATER - 60)
    for following in (pod(1, phase="Pending", node=""), pod(1, started=LATER - 10)):
        [found] = jobs(known(former, following), part(former, 0.0))
        assert (found.ended, found.visible) == (None, False)


def test_the_word_of_exporters_on_the_user_comes_before_the_namespace() -> None:
    one = pod(0)
    item = part(one, 0.5)
    told = replace(item, job=replace(item.job, user="carol"))
    assert [found.job.user for found in jobs(known(one), told, users={"ml": "the-lab"})] == ["carol"]
    assert [found.job.user for found in jobs(known(one), item, users={"ml": "the-lab"})] == ["the-lab"]


def test_labels_of_scheduler_pods_are_believed_where_the_configuration_says() -> None:
    one = pod(0, labels=SLURMD)
    assert jobs(known(one), part(one, 0.0)) == []
    assert len(jobs(known(one), part(one, 0.0), scheduler_namespaces="slurm-*")) == 1
    assert "nodes of another scheduler: 1 (in ml)" in word(known(one)).targets[0].note


def test_a_name_that_was_used_before_is_that_of_the_pod_that_has_it_now() -> None:
    """In whatever order they are known."""
    former, now = pod(0, uid="former", phase="Succeeded", finished=LATER - 10), pod(0, uid="now")
    nameless = part(now, 0.5)
    nameless = replace(nameless, job=replace(nameless.job, id="k8s/ml/bert-worker-0/"))
    [found] = jobs(known(now, former), nameless)
    assert (found.job.id, found.ended, found.visible) == (JOB, None, True)


def test_the_user_is_the_one_whom_a_living_pod_names_in_whatever_order_pods_are_known() -> None:
    over, lives = pod(9, phase="Succeeded", finished=LATER - 99), pod(1)
    written = {
        one.uid: replace(TRAIN, annotations={"dutycycle.io/user": name})
        for one, name in ((over, "old"), (lives, "ada"))
    }
    for order in ((over, lives), (lives, over)):
        snapshot = replace(known(*order), owners={one.uid: written[one.uid] for one in order})
        [found] = jobs(snapshot, *(part(one, 0.5) for one in order))
        assert found.job.user == "ada"


def test_a_gpu_is_free_only_where_all_nodes_of_it_are_its_own_and_former_slurm_nodes_are_none() -> None:
    two = replace(evidence([0.0, 0.0], nodes=2).job, id="gpu/1")
    across = replace(evidence([0.0, 0.0], nodes=2), job=two)
    assert list(word(known()).claimed(Evidence(unowned=[across])).unowned) == [across]
    gone = pod(0, name="slurmd-0", labels=SLURMD, phase="Succeeded")
    assert word(known(gone)).other_names() == {}


# The fleet


def test_gpus_of_nodes_out_of_service_and_of_waiting_pods_are_counted() -> None:
    nodes = {
        "node0": Node("node0", gpus=8),
        "cordoned": Node("cordoned", schedulable=False, gpus=8),
        "dead": Node("dead", ready=False, gpus=4),
        "cpu": Node("cpu", schedulable=False),
    }
    pods = [
        pod(0, gpus=3),
        pod(1, gpus=2, node="cordoned"),
        pod(2, gpus=4, node="", phase="Pending", waiting="Unschedulable"),
        pod(3, gpus=1, node="", phase="Pending", waiting="SchedulingGated"),
        pod(4, gpus=8, phase="Succeeded"),
    ]
    said = word(known(*pods, nodes=nodes), cluster="north")
    away = (AwayNode(frozenset({"cordoned"}), "", 6, 2, down=False), AwayNode(frozenset({"dead"}), "", 4, 0, down=True))
    assert said.fleet() == (FleetPart("north", FleetGpus(LATER, 20, 5, 5, 6, 4, 5, 1, away)),)
    assert said.out_of_service() == {"cordoned": "drained", "dead": "down", "cpu": "drained"}
    assert (said.knows("node0"), said.knows("other"), said.cluster_of("node0")) == (True, False, "north")


@pytest.mark.parametrize("snapshot", [replace(known(), fresh=False), replace(known(), nodes=None)])
def test_a_fleet_that_is_not_known_is_not_empty(snapshot: Snapshot) -> None:
    assert word(snapshot).fleet() == (FleetPart("", None),)


def test_gpus_that_nobody_holds_are_free_on_its_own_nodes_only() -> None:
    unowned = [
        replace(one, job=replace(one.job, gpus=(replace(one.job.gpus[0], node=node),)))
        for one, node in ((evidence([0.0], id="gpu/1"), "node0"), (evidence([0.0], id="gpu/2"), "elsewhere"))
    ]
    found = word(known()).claimed(Evidence(unowned=unowned))
    assert [item.job.gpus[0].node for item in found.unowned] == ["elsewhere"]


# Over time


def test_its_last_word_is_told_by_the_clock_of_the_pass() -> None:
    fresh = word(replace(known(), read_at=LATER - 300.0)).targets[0]
    silent = word(replace(known(), fresh=False, read_at=LATER - 300.0, error="pods: refused")).targets[0]
    assert (fresh.last_success, fresh.error) == (LATER, "")
    assert (silent.last_success, silent.error) == (LATER - 300.0, "pods: refused")


def test_the_first_pass_waits_for_the_first_answer_and_no_other_does() -> None:
    watch = Told(known(pod(0)))
    workloads = KubernetesWorkloads(KubernetesCluster(cluster="north"), watch, Settings())
    said = [workloads.ask(LATER, [], []) for _ in range(3)]
    assert watch.waited == [10.0]
    assert [target.url for target in said[0].targets] == ["kubernetes north"]
    assert workloads.watches() == {"kubernetes north": WatchCounts(events=7)}
    workloads.close()
    assert watch.closed
