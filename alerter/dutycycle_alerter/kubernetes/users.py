"""Whose job it is, by what is written on it and by its namespace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dutycycle_alerter.kubernetes.model import Owner, Pod
from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from dutycycle_alerter.settings.matching import matches_any

LONGEST = 256
"""Characters of a user's name; what is longer is none."""

_ANNOTATIONS = (
    "hub.jupyter.org/username",  # KubeSpawner's, of the person whose server it is
    "notebooks.kubeflow.org/creator",  # Kubeflow's form for notebooks, of the person who is logged in
    "opendatahub.io/username",  # the same of Open Data Hub and OpenShift AI
)
_LABELS = (
    "com.coder.user.username",  # Coder's templates, of the workspace's owner
    "workload.codeflare.dev/user",  # AppWrapper's admission, of who made it
    "workflows.argoproj.io/creator-preferred-username",  # Argo's server, of the person who is logged in
    "skypilot-user",  # SkyPilot's, of who launched it
)
"""Where programs write a person's name, and nothing else. Others write an account's number, or the program's own."""

_SHARED = frozenset({"kubernetes-admin", "kubernetes-super-admin", "kube:admin", "masterclient", "minikube-user"})
"""What clusters' first credentials are called: an account that everybody uses who has the file, and so nobody's."""


def user_of(pod: Pod, owner: Owner, settings: KubernetesCluster, *, told: str = "") -> str:
    """The user of a job that has this pod; never empty, for in the end it is the namespace.

    First what `user_annotation`, then what `user_label` says, then what known programs write; of each the job's own
    word, then what is nearest to it, then the pod's. Then what its exporter has `told`, then `users`, by the namespace.
    """
    written = (name for text in _written(pod, owner, settings) if (name := _person(text)))
    mapped = (user for pattern, user in settings.users.items() if user and matches_any(pod.namespace, pattern))
    return next(written, "") or _person(told) or next(mapped, "") or pod.namespace


def _written(pod: Pod, owner: Owner, settings: KubernetesCluster) -> Iterator[str]:
    yield from _texts((settings.user_annotation,), owner.annotations, pod.annotations)
    yield from _texts((settings.user_label,), owner.labels, pod.labels)
    yield from _texts(_ANNOTATIONS, owner.annotations, pod.annotations)
    yield from _texts(_LABELS, owner.labels, pod.labels)


def _texts(names: Iterable[str], *layers: Mapping[str, str]) -> Iterator[str]:
    return (layer.get(name, "") for name in names if name for layer in layers)


def _person(text: str) -> str:
    """The name, empty where it is none: not shown as it is, an account of the cluster's own parts, or everybody's."""
    name = text.strip()
    shown = len(name) <= LONGEST and name.isprintable()
    return name if shown and not name.startswith("system:") and name not in _SHARED else ""
