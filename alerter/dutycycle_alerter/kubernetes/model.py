"""What the alerter keeps of Kubernetes objects: pods that hold or want GPUs, their nodes, and the jobs that own them.

Everything here is immutable. Texts are anybody's, times Unix seconds of the cluster's clocks, None is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SCHEDULER = "k8s"
"""What the exporters call it, in the label `scheduler` and before the first slash of a workload."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The object that controls another: its kind, the `apiVersion` (`batch/v1`, `v1`) it is known by, and which."""

    api_version: str
    kind: str
    name: str
    uid: str

    @property
    def group(self) -> str:
        """The API group, empty for the core's."""
        return self.api_version.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Metadata:
    """What is read of an object that owns others: who it is, who owns it, and what is written on it.

    `cluster_scoped` objects are in no namespace: those that own others are machines, installers and their like.
    """

    uid: str
    owner: Reference | None = None
    created: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cluster_scoped: bool = False


DENIED = Metadata("")
"""Stands for an object that may not be read."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How one container of a pod stands: its name, the reason that is given (empty for none), and since when."""

    container: str
    reason: str = ""
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod with GPU resources or with claims for devices.

    `owner` is its controller. `phase` is Kubernetes' (`Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`),
    `reason` why it is in it (`Evicted`, `Preempted`), `waiting` why its containers do not run (`CrashLoopBackOff`),
    or the pod is not scheduled (`Unschedulable`, `SchedulingGated`); both empty where nothing is said. `started` is
    when the kubelet took it, `finished` when its last container ended (None while one runs). `deleted` is when it
    is to be gone, or else, of one that is, when that was found; `gone` tells that it is, or that its labels are no
    longer selected. `gpus` are those that it requests by resources, `parts` how many of them are shares or slices of
    one, `claims` the names of its claims, `cpus` (cores) and `memory` (bytes) its requests. `attended` tells that a
    container has a terminal, as those have that people start by hand. `ended` is a container with GPUs that has ended
    for good while others run on, `starting` the init container that runs, `killed` one that last ended because it took
    too much memory.
    """

    namespace: str
    name: str
    uid: str
    owner: Reference | None = None
    node: str = ""
    phase: str = ""
    reason: str = ""
    waiting: str = ""
    restarts: int = 0
    created: float | None = None
    started: float | None = None
    finished: float | None = None
    deleted: float | None = None
    gone: bool = False
    gpus: int = 0
    parts: int = 0
    claims: tuple[str, ...] = ()
    cpus: float | None = None
    memory: float | None = None
    attended: bool = False
    ended: Standing | None = None
    starting: Standing | None = None
    killed: Standing | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def workload(self) -> str:
        """What the exporters call it."""
        return f"{SCHEDULER}/{self.namespace}/{self.name}/{self.uid}"

    @property
    def over(self) -> bool:
        """Whether it has come to its end: it holds no GPU any more, and will not again."""
        return self.gone or self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Node:
    """One node: whether it takes new pods, whether it is ready, how many whole GPUs it has, and their type (empty where
    nobody says). GPUs of which only shares or slices are known are not counted.
    """

    name: str
    schedulable: bool = True
    ready: bool = True
    gpus: int = 0
    type: str = ""


@dataclass(frozen=True, slots=True)
class Owner:
    """The job that people know, to which a pod belongs: the last controller above it that is one, or the pod itself.

    `labels` and `annotations` are those of the objects from the job down to the pod; where several have one, the
    job's own counts, then what is nearest to it, then that of the schedule or campaign that made the job. `chain` are
    the kinds from the job down to the pod's controller.
    """

    namespace: str
    kind: str
    name: str
    uid: str
    group: str = ""
    created: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    chain: tuple[str, ...] = ()

    @property
    def workload(self) -> str:
        """Its id among jobs, without the cluster; that of a bare pod is what the exporters call it."""
        kind = "" if self.kind == "Pod" else f"/{self.kind.lower()}"
        return f"{SCHEDULER}/{self.namespace}{kind}/{self.name}/{self.uid}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one cluster's API server has told, as of now. All by uid, nodes by name.

    `pods` are those that exist, and those that came to their end within the time for which the dead are remembered.
    `owners` has the job of each pod as far as it is known. `fresh` tells that the watch is connected and nothing
    is missing: only then does what is absent from it not exist. `read_at` is when it last was; `error` says why it is
    not, `note` what else there is to say (owners that may not be read).
    """

    pods: Mapping[str, Pod] = field(default_factory=dict)
    owners: Mapping[str, Owner] = field(default_factory=dict)
    nodes: Mapping[str, Node] | None = None
    fresh: bool = False
    read_at: float | None = None
    error: str = ""
    note: str = ""
