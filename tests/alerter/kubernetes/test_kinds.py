"""How jobs are used by what they are, which pods are other schedulers' nodes, and what jobs say of themselves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dutycycle_alerter.declarations import NONE, Declarations
from dutycycle_alerter.kubernetes.kinds import declared, expects_uneven, is_node_of_another, kind_of
from dutycycle_alerter.kubernetes.model import Owner, Pod
from dutycycle_alerter.model import JobKind
from dutycycle_alerter.settings.kubernetes import KubernetesCluster

BATCH, INTERACTIVE, SERVING = JobKind.BATCH, JobKind.INTERACTIVE, JobKind.SERVING


def job(kind: str, *below: str, group: str = "", labels: Mapping[str, str] | None = None) -> Owner:
    chain = () if kind == "Pod" else (kind, *below)
    return Owner("ml", kind, "name", "uid", group, labels=labels or {}, chain=chain)


def pod(*, attended: bool = False, **labels: str) -> Pod:
    return Pod("ml", "pod", "uid-1", attended=attended, labels=labels)


@pytest.mark.parametrize(
    ("owner", "kind"),
    [
        (job("Deployment", "ReplicaSet"), SERVING),
        (job("ReplicaSet"), SERVING),
        (job("StatefulSet"), SERVING),
        (job("DaemonSet"), SERVING),
        (job("Rollout", "ReplicaSet"), SERVING),
        (job("LeaderWorkerSet", "StatefulSet", "Pod", "StatefulSet"), SERVING),
        (job("InferenceService", "Service", "Configuration", "Revision", "Deployment", "ReplicaSet"), SERVING),
        (job("RayService", "RayCluster"), SERVING),
        (job("Workspace", "StatefulSet", group="kaito.sh"), SERVING),
        (job("Model", "Deployment", "ReplicaSet", group="example.com"), SERVING),
        (job("RayCluster", labels={"ray.io/originated-from-crd": "RayService"}), SERVING),
        (job("Notebook", "StatefulSet"), INTERACTIVE),
        (job("Workspace", "StatefulSet", group="kubeflow.org"), INTERACTIVE),
        (job("DevWorkspace", "Deployment", "ReplicaSet"), INTERACTIVE),
        (job("RayCluster"), INTERACTIVE),
        (job("RayCluster", labels={"ray.io/originated-from-crd": "RayCluster"}), INTERACTIVE),
        (job("DaskCluster", "Deployment", "ReplicaSet"), INTERACTIVE),
        (job("RayCluster", labels={"ray.io/originated-from-crd": "RayJob"}), BATCH),
        (job("RayJob", "RayCluster"), BATCH),
        (job("Job"), BATCH),
        (job("JobSet", "Job"), BATCH),
        (job("PyTorchJob"), BATCH),
        (job("MPIJob", "Job"), BATCH),
        (job("Workflow"), BATCH),
        (job("PipelineRun", "TaskRun"), BATCH),
        (job("SparkApplication", "Pod"), BATCH),
        (job("Sweep", group="example.com"), BATCH),
        (job("Sweep", "Job", group="example.com"), BATCH),
        (job("Pod"), BATCH),
    ],
    ids=lambda value: "-".join(value.chain) if isinstance(value, Owner) else str(value),
)
def test_a_jobs_kind_follows_from_what_it_is(owner: Owner, kind: JobKind) -> None:
    """Kinds that nobody has heard of are what they made, and batch where that is unknown as well."""
    assert kind_of([pod()], owner) is kind


@pytest.mark.parametrize(
    "labels",
    [
        {"component": "singleuser-server"},
        {"app.kubernetes.io/component": "singleuser-server"},
        {"com.coder.workspace.id": "7"},
        {"notebook-name": "mine"},
        {"controller.devfile.io/devworkspace_id": "workspace7"},
    ],
    ids=lambda labels: next(iter(labels)),
)
def test_a_workbench_is_interactive_whatever_it_is_made_by(labels: dict[str, str]) -> None:
    """By the labels of its pods: some are bare pods, and others' owners may not be read."""
    for owner in (job("Pod"), job("Deployment", "ReplicaSet"), job("StatefulSet")):
        assert kind_of([pod(**labels)], owner) is INTERACTIVE


def test_a_bare_pod_with_a_terminal_is_interactive() -> None:
    """A terminal of a controller's pod says nothing: nobody sits before eight replicas."""
    assert kind_of([pod(attended=True)], job("Pod")) is INTERACTIVE
    assert kind_of([pod(), pod(attended=True)], job("Pod")) is INTERACTIVE
    assert kind_of([pod(attended=True)], job("Job")) is BATCH
    assert kind_of([pod(attended=True)], job("Deployment", "ReplicaSet")) is SERVING
    assert kind_of([], job("Pod")) is BATCH


@pytest.mark.parametrize(
    ("owner", "uneven"),
    [
        (job("Workflow"), True),
        (job("PipelineRun", "TaskRun"), True),
        (job("RayJob", "RayCluster"), True),
        (job("RayCluster"), True),
        (job("Study", "RayJob", "RayCluster"), True),
        (job("TFJob"), True),
        (job("PyTorchJob"), False),
        (job("MPIJob"), False),
        (job("TrainJob", "JobSet", "Job"), False),
        (job("Job"), False),
        (job("TaskRun"), False),
        (job("Pod"), False),
    ],
    ids=lambda value: "-".join(value.chain) if isinstance(value, Owner) else str(value),
)
def test_pods_that_differ_by_design_are_not_compared(owner: Owner, uneven: bool) -> None:
    """The ranks of a training are alike; steps of a workflow, or a cluster's head and workers, are not."""
    assert expects_uneven(owner) is uneven


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        ({"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker"}, True),
        ({"app.kubernetes.io/name": "slurmcluster", "app.kubernetes.io/component": "worker"}, True),
        ({"app.kubernetes.io/name": "SlurmCluster", "app.kubernetes.io/component": "worker"}, True),
        ({"app.kubernetes.io/name": "slurmdbd"}, False),
        ({"app.kubernetes.io/component": "worker"}, False),
        ({}, False),
    ],
    ids=str,
)
def test_slurms_nodes_are_known_by_their_labels(labels: dict[str, str], node: bool) -> None:
    """Those that the two operators make. Their GPUs belong to Slurm's jobs."""
    settings = KubernetesCluster()
    assert is_node_of_another(pod(**labels), job("NodeSet"), settings) is node
    assert is_node_of_another(pod(), job("NodeSet", labels=labels), settings) is node


def test_other_nodes_can_be_named() -> None:
    """By any label; the defaults are then replaced."""
    settings = KubernetesCluster(scheduler_pods="role=pbs-*")
    assert is_node_of_another(pod(role="pbs-mom"), job("Pod"), settings)
    assert not is_node_of_another(pod(**{"app.kubernetes.io/name": "slurmd"}), job("Pod"), settings)


def test_a_job_says_what_it_is_in_annotations_of_its_own_or_of_its_pods() -> None:
    """The job's own word counts. Who its user is says nothing of it, and other annotations do not either."""
    owner = Owner("ml", "Job", "j", "u", annotations={"dutycycle.io/kind": "serving", "dutycycle.io/user": "alice"})
    pods = [
        Pod("ml", "a", "1", annotations={"dutycycle.io/kind": "batch", "dutycycle.io/expect-uneven": "true"}),
        Pod("ml", "b", "2", annotations={"dutycycle.io/ignore": "idle", "example.com/ignore": "hung"}),
    ]
    assert declared(owner, pods) == Declarations(True, frozenset({"idle"}), SERVING)
    assert declared(job("Pod"), []) == NONE


def test_the_annotation_of_the_user_may_have_another_name() -> None:
    """Then the usual one is a word that means nothing, and is listed as such."""
    owner = Owner("ml", "Job", "j", "u", annotations={"dutycycle.io/owner": "alice"})
    assert declared(owner, [], "dutycycle.io/owner") == NONE
    assert declared(owner, []).unknown == ("owner=alice",)
