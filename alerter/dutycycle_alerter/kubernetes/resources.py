"""The kinds that own pods, by group: what their objects are called in a URL, so that it need not be asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """Where the objects of a kind are: in which group and version, under which plural name, in namespaces or not."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str, name: str) -> str:
        """The URL's path of one of them. Name and namespace must already be fit for a URL."""
        start = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{start}{f'/namespaces/{namespace}' if self.namespaced else ''}/{self.plural}/{name}"

    @property
    def shown(self) -> str:
        """What it is called in a role."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_PLURALS = {
    "": ("Pod", "ReplicationController"),
    "apps": ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"),
    "batch": ("Job", "CronJob"),
    "jobset.x-k8s.io": ("JobSet",),
    "leaderworkerset.x-k8s.io": ("LeaderWorkerSet",),
    "kubeflow.org": ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "Notebook"),
    "trainer.kubeflow.org": ("TrainJob",),
    "ray.io": ("RayCluster", "RayJob", "RayService"),
    "argoproj.io": ("Workflow", "CronWorkflow"),
    "tekton.dev": ("TaskRun", "PipelineRun"),
    "batch.volcano.sh": ("Job",),
    "sparkoperator.k8s.io": ("SparkApplication",),
    "serving.kserve.io": ("InferenceService",),
}


def well_known(group: str, version: str, kind: str) -> Resource | None:
    """Where the objects of a kind are, of those whose plural is known; served or not."""
    if kind not in _PLURALS.get(group, ()):
        return None
    return Resource(group, version, f"{kind.lower()}s")
