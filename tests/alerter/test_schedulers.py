"""Slurm and Kubernetes side by side in one alerter: each speaks of its own jobs and nodes only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dutycycle_alerter.fleet_now import AwayNode, FleetGpus, FleetPart
from dutycycle_alerter.incidents.model import Diagnosis, Incident, Severity, State
from dutycycle_alerter.kubernetes.doubts import PATIENCE, Doubts
from dutycycle_alerter.kubernetes.endings import Endings
from dutycycle_alerter.kubernetes.model import Node, Owner
from dutycycle_alerter.kubernetes.word import KubernetesWord
from dutycycle_alerter.model import Evidence, job_id
from dutycycle_alerter.rules import judge
from dutycycle_alerter.rules.verdict import Outcome
from dutycycle_alerter.schedulers import SeveralWords, connected
from dutycycle_alerter.settings import KubernetesCluster, Settings, Slurm
from dutycycle_alerter.slurm.model import JobState, SlurmJob, SlurmNode, Snapshot
from dutycycle_alerter.slurm.word import SlurmWord
from dutycycle_alerter.workloads import Nobody
from tests.alerter.cases import LATER, SETTINGS, START, evidence
from tests.alerter.kubernetes.podcases import TRAIN, known, part, pod

SLURMD = {"app.kubernetes.io/name": "slurmd"}


def slurm(**fields: Any) -> SlurmWord:
    """A Slurm that runs job 7 of carol's on the node gpu01; the node slurmd-0 is drained."""
    job = SlurmJob(id=7, state=JobState.RUNNING, states=("RUNNING",), user="carol", start=START)
    nodes = {
        "gpu01": SlurmNode(name="gpu01", gpus=8, partitions=("gpu",)),
        "slurmd-0": SlurmNode(name="slurmd-0", gpus=4, states=frozenset({"IDLE", "DRAIN"})),
    }
    snapshot = Snapshot(at=LATER, jobs={7: job}, nodes=nodes, nodes_at=LATER)
    return SlurmWord(snapshot, cluster="lab", **fields)


def kubernetes(*pods: Any, owner: Owner = TRAIN, cluster: str = "cloud") -> KubernetesWord:
    nodes = {"node0": Node("node0", gpus=8), "node1": Node("node1", schedulable=False, gpus=8)}
    snapshot = known(*pods, owner=owner, nodes=nodes)
    return KubernetesWord(
        KubernetesCluster(cluster=cluster), Settings(), snapshot, LATER, Doubts(PATIENCE), Endings(SETTINGS)
    )


def test_two_schedulers_two_jobs_two_owners() -> None:
    one = pod(0)
    in_cloud = part(one, 0.0, cluster="cloud")
    in_cloud = replace(in_cloud, job=replace(in_cloud.job, id=job_id("cloud", one.workload)))
    in_lab = evidence([0.0], id="lab/slurm/7", job_id="7", cluster="lab", user="")
    owner = replace(TRAIN, annotations={"dutycycle.io/user": "alice"})
    said = SeveralWords((slurm(), kubernetes(one, owner=owner)))
    found = said.completed(said.claimed(Evidence(jobs=[in_lab, in_cloud])))
    assert [(item.job.id, item.job.user) for item in found.jobs] == [
        ("lab/slurm/7", "carol"),
        ("cloud/k8s/ml/pytorchjob/bert/owner-1", "alice"),
    ]
    assert [judge(item, SETTINGS).verdict("idle").outcome for item in found.jobs] == [Outcome.FIRING] * 2


def test_nodes_belong_to_the_cluster_that_knows_them() -> None:
    said = SeveralWords((slurm(), kubernetes()))
    assert [said.cluster_of(node) for node in ("gpu01", "node0", "elsewhere")] == ["lab", "cloud", ""]
    assert SeveralWords((slurm(),)).cluster_of("elsewhere") == "lab"
    assert said.partitions()["gpu01"] == ("gpu",)
    assert [target.url for target in said.targets] == ["kubernetes cloud"]


def test_a_node_of_slurms_that_is_a_pod_is_out_of_service_where_the_pod_is() -> None:
    host = pod(0, name="slurmd-0", labels=SLURMD)
    said = SeveralWords((slurm(), kubernetes(host, owner=Owner("ml", "NodeSet", "slurmd", "owner-2"))))
    assert said.out_of_service() == {"slurmd-0": "drained", "node0": "drained", "node1": "drained"}
    lab, cloud = said.fleet()
    assert lab.gpus is not None
    assert lab.gpus.away == (AwayNode(frozenset({"slurmd-0", "node0"}), "", 4, 0, down=False),)
    assert (cloud.cluster, cloud.gpus and cloud.gpus.total) == ("cloud", 16)


def test_who_knows_the_end_of_a_job_tells_it() -> None:
    incident = Incident(
        subject="cloud/k8s/ml/pytorchjob/bert/owner-1",
        rule="idle",
        severity=Severity.WARNING,
        state=State.OPEN,
        started_at=START,
        opened_at=START,
        updated_at=LATER,
        known_at=LATER,
        diagnosis=Diagnosis((), (), (), "", ()),
        gpus=(),
        rules=(),
        cluster="cloud",
        scheduler="k8s",
    )
    said = SeveralWords((slurm(), kubernetes(pod(0, phase="Succeeded", finished=LATER - 60))))
    ended = said.end(incident)
    assert ended is not None
    assert (ended.at, ended.outcome) == (LATER - 60, "Succeeded")
    assert said.end(replace(incident, subject="lab/slurm/7", cluster="lab", scheduler="slurm")) is None
    assert said.final(evidence([0.5]).job) is None


def test_without_a_scheduler_nobody_speaks() -> None:
    assert connected(Settings()) == Nobody()


@pytest.mark.parametrize("settings", [Settings(slurm=Slurm(command_directory="/nonexistent"))])
def test_each_configured_scheduler_is_asked(settings: Settings) -> None:
    schedulers = connected(settings)
    said = schedulers.ask(LATER, [], [])
    assert said.targets[0].url == "slurm"
    assert said.targets[0].error
    assert said.fleet() == (FleetPart("", None),)
    schedulers.close()


def test_a_fleet_of_several_is_the_fleet_of_each() -> None:
    said = SeveralWords((slurm(), kubernetes(pod(0), pod(1, node="", phase="Pending"))))
    assert [part.cluster for part in said.fleet()] == ["lab", "cloud"]
    assert said.fleet()[1].gpus == FleetGpus(
        LATER, 16, 1, 7, 8, 0, 1, 0, (AwayNode(frozenset({"node1"}), "", 8, 0, down=False),)
    )
