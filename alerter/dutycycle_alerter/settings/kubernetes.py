"""Kubernetes clusters: how to reach their API servers, and what of their pods counts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from dutycycle_alerter.settings.matching import ANY, LabelPatterns, Patterns
from dutycycle_alerter.settings.types import RealDuration, Section

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def _namespaces(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not _NAMESPACE.fullmatch(name):
            raise ValueError(f"{name[:80]!r} cannot be the name of a namespace (patterns are not possible here)")
    return names


def _key(name: str) -> str:
    if name and not _KEY.fullmatch(name):
        raise ValueError(f"{name[:80]!r} cannot be the name of a label or annotation, such as example.com/user")
    return name


Key = Annotated[str, AfterValidator(_key)]
"""The name of a label or an annotation."""


class KubernetesCluster(Section):
    """One cluster, whose API server says to which job a pod belongs, and whose it is. `- {}` is the one that the
    alerter runs in.
    """

    cluster: str = Field(default="", max_length=256)
    """Only pods whose exporters have this --cluster are this cluster's; all, where it is empty."""
    kubeconfig: Path | None = None
    """A kubeconfig. Without one the service account of the alerter's own pod is used."""
    context: str = Field(default="", max_length=256)
    """The context in it, if not its current one."""
    namespaces: Annotated[tuple[str, ...], AfterValidator(_namespaces)] = ()
    """Only pods in these are watched, each with a watch of its own; all, where it is empty."""
    label_selector: str = Field(default="", max_length=4096)
    """Only pods with these labels are watched, such as `gpu=true`: the API server's own selectors."""
    resources: Patterns = ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*")
    """Resources that are GPUs, as patterns."""
    nodes: bool = True
    """Whether nodes are watched, to tell those that take no pods from those that are free."""
    user_annotation: Key = "dutycycle.io/user"
    """The annotation that names the user, on the job, its owners or the pod; empty for none."""
    user_label: Key = ""
    """The label that names the user where no annotation does; empty for none."""
    users: dict[str, str] = Field(default={}, max_length=10_000)
    """Users by pattern of the namespace, where neither does; the first match counts. Else it is the namespace."""
    scheduler_pods: LabelPatterns = (
        "app.kubernetes.io/name=slurmd",
        "app.kubernetes.io/name=[sS]lurm[cC]luster",
        "slurm.nebius.ai/worker=true",
    )
    """Pods that are nodes of another scheduler, by a label as `name=pattern`: what they hold is not theirs to use."""
    scheduler_namespaces: Patterns = ANY
    """Patterns of the namespaces in which such labels are believed: whoever may write one elsewhere could hide."""
    timeout: RealDuration = 30
    """How long the API server may take to begin an answer."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.context and self.kubeconfig is None:
            raise ValueError("context is given, but no kubeconfig")
        return self
