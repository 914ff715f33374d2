"""The kinds that own pods, by group: what their objects are called in a URL, so that it need not be asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_GROUP = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")
_WORD = re.compile(_LABEL)
_NAME = re.compile(r"(?!\.{1,2}$)[!-$&-.0-~]{1,253}")
"""Of an object: no slash, no percent sign, no dots that lead upwards."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Where the objects of a kind are: in which group and version, under which plural name, in namespaces or not.
    Group, version and plural are texts that `served_under` and `is_plural` let through.
    """

    group: str
    version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str, name: str) -> str:
        """The URL's path of one of them; empty where there can be none of that name."""
        start = served_under(self.group, self.version)
        if not start or _NAME.fullmatch(name) is None or _WORD.fullmatch(namespace) is None:
            return ""
        place = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{start}{place}/{self.plural}/{quote(name, safe='')}"

    @property
    def shown(self) -> str:
        """What it is called in a role."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def served_under(group: str, version: str = "") -> str:
    """The path under which a group, or one of its versions, is served; empty where there can be none such. What is
    written in a reference is anybody's, and would else lead anywhere on the server, by the alerter's token.
    """
    if (group and _GROUP.fullmatch(group) is None) or (version and _WORD.fullmatch(version) is None):
        return ""
    if not group:
        return f"/api/{version}" if version else ""
    return f"/apis/{group}/{version}".rstrip("/")


def is_plural(name: str) -> bool:
    """Whether it is the plural name of a kind, and not of a part of its objects, such as their status."""
    return _WORD.fullmatch(name) is not None


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
