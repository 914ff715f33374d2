"""With which command a job on Kubernetes is ended, by what object it is."""

from __future__ import annotations

import shlex

import pytest

from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.rules.commands import confirm
from dutycycle_alerter.rules.kubectl import end_object
from tests.alerter.cases import job


@pytest.mark.parametrize(
    ("group", "kind", "verb", "resource"),
    [
        ("", "Pod", "delete", "pod"),
        ("batch", "Job", "delete", "job.batch"),
        ("batch.volcano.sh", "Job", "delete", "job.batch.volcano.sh"),
        ("jobset.x-k8s.io", "JobSet", "delete", "jobset.jobset.x-k8s.io"),
        ("trainer.kubeflow.org", "TrainJob", "delete", "trainjob.trainer.kubeflow.org"),
        ("kubeflow.org", "PyTorchJob", "delete", "pytorchjob.kubeflow.org"),
        ("kubeflow.org", "MPIJob", "delete", "mpijob.kubeflow.org"),
        ("ray.io", "RayCluster", "delete", "raycluster.ray.io"),
        ("ray.io", "RayJob", "delete", "rayjob.ray.io"),
        ("argoproj.io", "Workflow", "delete", "workflow.argoproj.io"),
        ("apps", "Deployment", "scale --replicas=0", "deployment.apps"),
        ("apps", "StatefulSet", "scale --replicas=0", "statefulset.apps"),
        ("apps", "ReplicaSet", "scale --replicas=0", "replicaset.apps"),
        ("argoproj.io", "Rollout", "scale --replicas=0", "rollout.argoproj.io"),
        (
            "leaderworkerset.x-k8s.io",
            "LeaderWorkerSet",
            "scale --replicas=0",
            "leaderworkerset.leaderworkerset.x-k8s.io",
        ),
        ("apps", "DaemonSet", "describe", "daemonset.apps"),
        ("serving.knative.dev", "Service", "describe", "service.serving.knative.dev"),
        ("serving.kserve.io", "InferenceService", "describe", "inferenceservice.serving.kserve.io"),
        ("ray.io", "RayService", "describe", "rayservice.ray.io"),
        # Kinds that nobody knows, among them those of a group that has only the name of one that is known.
        ("example.com", "Thing", "describe", "thing.example.com"),
        ("example.com", "Job", "describe", "job.example.com"),
        ("example.com", "Deployment", "describe", "deployment.example.com"),
        ("kubeflow.org.example.com", "Notebook", "describe", "notebook.kubeflow.org.example.com"),
        ("", "Service", "describe", "service"),
    ],
)
def test_the_command_ends_the_object_itself_or_only_looks_at_it(
    group: str, kind: str, verb: str, resource: str
) -> None:
    found = end_object(job(scheduler="k8s", namespace="ml", pod="x-0", name="x", owner=kind, owner_group=group))
    assert found == f"kubectl {verb} -n ml {resource}/x"


def test_a_notebook_is_stopped_and_stays() -> None:
    found = end_object(
        job(scheduler="k8s", namespace="ml", pod="x-0", name="x", owner="Notebook", owner_group="kubeflow.org")
    )
    assert found == (
        'kubectl annotate -n ml notebook.kubeflow.org/x kubeflow-resource-stopped="$(date -u +%Y-%m-%dT%H:%M:%SZ)"'
    )


def test_a_pod_whose_owner_was_not_asked_for_is_what_there_is_to_delete() -> None:
    assert end_object(job(scheduler="k8s", namespace="ml", pod="x-0")) == "kubectl delete -n ml pod/x-0"


@pytest.mark.parametrize(
    ("group", "kind"),
    [("batch", "Job"), ("apps", "Deployment"), ("kubeflow.org", "Notebook"), ("x$(reboot)", "T;id"), ("", "Pod")],
)
def test_nothing_that_is_written_in_a_name_is_run(group: str, kind: str) -> None:
    hostile = "a'; reboot #`id`$(id)"
    found = end_object(job(scheduler="k8s", namespace=hostile, pod="p", name=hostile, owner=kind, owner_group=group))
    words = shlex.split(found)
    assert words[words.index("-n") + 1] == hostile
    assert words[words.index("-n") + 2].endswith(f"/{hostile}")
    assert len(words) <= 6


@pytest.mark.parametrize("cause", [Cause.NO_PROCESS, Cause.IDLE_NOTEBOOK, Cause.HANG])
def test_what_does_nothing_comes_with_the_command_that_ends_it(cause: Cause) -> None:
    item = job(scheduler="k8s", job_id="", namespace="ml", pod="x-0", name="x", owner="Job", owner_group="batch")
    assert "kubectl delete -n ml job.batch/x" in confirm(item, (cause,))
    assert "kubectl delete -n ml job.batch/x" not in confirm(item, (cause,), ended=True)
