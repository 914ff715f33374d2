"""How the objects that jobs on Kubernetes are come to an end: deleted, scaled down, or stopped, as their kind wants."""

from __future__ import annotations

import shlex

from dutycycle_alerter.model import Job

_SCALED = frozenset(
    {
        ("", "ReplicationController"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("apps.kruise.io", "CloneSet"),
        ("apps.openshift.io", "DeploymentConfig"),
        ("argoproj.io", "Rollout"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    }
)
"""Kinds, by group, that run until somebody ends them, and stay with no pod."""

_DELETED = frozenset(
    {
        ("", "Pod"),
        ("argoproj.io", "Workflow"),
        ("batch", "Job"),
        ("batch.volcano.sh", "Job"),
        ("jobset.x-k8s.io", "JobSet"),
        ("kubeflow.org", "JAXJob"),
        ("kubeflow.org", "MPIJob"),
        ("kubeflow.org", "PaddleJob"),
        ("kubeflow.org", "PyTorchJob"),
        ("kubeflow.org", "TFJob"),
        ("kubeflow.org", "XGBoostJob"),
        ("kubernetes.dask.org", "DaskCluster"),
        ("kubernetes.dask.org", "DaskJob"),
        ("ray.io", "RayCluster"),
        ("ray.io", "RayJob"),
        ("sparkoperator.k8s.io", "SparkApplication"),
        ("tekton.dev", "PipelineRun"),
        ("tekton.dev", "TaskRun"),
        ("trainer.kubeflow.org", "TrainJob"),
    }
)
"""Kinds that are one run, and are over when they are deleted."""

_NOTEBOOK = ("kubeflow.org", "Notebook")
_STOPPED = 'kubeflow-resource-stopped="$(date -u +%Y-%m-%dT%H:%M:%SZ)"'
"""Takes a notebook's pod away, and leaves the notebook and its files."""


def end_object(job: Job) -> str:
    """The command line that ends a job of Kubernetes. Of a kind that is not known, or that has no end but that of a
    service or of every node's pod, only the one that looks at it.
    """
    group, kind, name = (job.owner_group, job.owner, job.name) if job.owner else ("", "Pod", job.pod)
    # With the group: Jobs and Services are kinds of several, and kubectl takes the bare name for its own.
    resource = f"{kind.lower()}.{group}" if group else kind.lower()
    which = f"-n {shlex.quote(job.namespace)} {shlex.quote(f'{resource}/{name}')}"
    if (group, kind) in _DELETED:
        return f"kubectl delete {which}"
    if (group, kind) in _SCALED:  # a pod that is deleted is made anew
        return f"kubectl scale --replicas=0 {which}"
    if (group, kind) == _NOTEBOOK:
        return f"kubectl annotate {which} {_STOPPED}"
    return f"kubectl describe {which}"
