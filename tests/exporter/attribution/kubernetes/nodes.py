"""A node whose kubelet and API server say what a test has them say."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dutycycle_exporter.attribution.kubernetes.holders import Holders
from dutycycle_exporter.attribution.kubernetes.messages import (
    ClaimResource,
    ContainerDevices,
    ContainerResources,
    PodResources,
)
from dutycycle_exporter.attribution.kubernetes.records import PodRecord
from dutycycle_exporter.model import GpuReading, Workload
from tests.exporter.attribution.kubernetes.usual import SELECTION

A, B, C = (f"GPU-0000000{n}-aaaa-4000-8000-00000000000{n}" for n in range(3))
WALL = 1_800_000_000.0
INTERVAL = 5.0


def holding(name: str, *devices: str, namespace: str = "ml", claims: Sequence[ClaimResource] = ()) -> PodResources:
    entries = tuple(ContainerDevices("nvidia.com/gpu", (device,)) for device in devices)
    return PodResources(name, namespace, (ContainerResources("main", entries, tuple(claims)),))


DAEMON = holding("exporter", namespace="monitoring")
"""A pod without a GPU: a node always has some."""


def record(name: str, uid: str, **fields: object) -> PodRecord:
    return PodRecord(uid, "ml", name, **{"user": "ada", "start": 1_799_999_000.0, **fields})  # type: ignore[arg-type]


class Node:
    """The holders of a node, and a clock that only moves when told. `cgroups` are the uids of pods that have one, None
    where none are seen; `living` those with a process in it.
    """

    def __init__(self, *, api: bool = True) -> None:
        self.cgroups: set[str] | None = None
        self.living: set[str] = set()
        self.holders = Holders(
            SELECTION,
            api=api,
            patience=15,
            stale=600,
            groups=self,
        )
        self.now = 1000.0
        self._pods: tuple[PodResources, ...] = ()

    def has_pod(self, uid: str) -> bool | None:
        return None if self.cgroups is None else uid in self.cgroups

    def pod_lives(self, uid: str) -> bool:
        return uid in self.living

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def learned(self, processes: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
        """What is claimed with these processes once the kubelet has said again what it said last."""
        self.claims(processes)
        self.listed(*self._pods, daemon=False)
        return self.claims(processes)

    def listed(self, *pods: PodResources, after: float = INTERVAL, daemon: bool = True) -> None:
        self.wait(after)
        self._pods = (*pods, DAEMON) if daemon else pods
        self.holders.listed(self._pods, self.now, self.now, WALL + self.now)

    def named(self, **uids: Collection[str]) -> None:
        """What links tell, by the names of pods."""
        self.holders.named({("ml", name): found for name, found in uids.items()}, self.now)

    def recorded(self, *records: PodRecord) -> None:
        self.holders.recorded(records, self.now)

    def claims(
        self, processes: Mapping[str, Collection[str]] | None = None, gpus: Sequence[GpuReading] = ()
    ) -> dict[str, list[str]]:
        found, _ = self.holders.claims(gpus, processes or {}, {}, self.now)
        held: dict[str, list[str]] = {}
        for claim in found:
            held.setdefault(claim.workload.id, []).append(claim.device)
        return held

    def containers(self) -> dict[str, tuple[str, ...]]:
        found, _ = self.holders.claims((), {}, {}, self.now)
        return {claim.device: claim.containers for claim in found}

    def start(self) -> float | None:
        found, _ = self.holders.claims((), {}, {}, self.now)
        return found[0].start

    def workload(self, uid: str) -> Workload | None:
        return self.holders.workload_of(uid, self.now)


def running(*, api: bool = True) -> Node:
    """A node on which pod `a` holds one GPU and is known."""
    node = Node(api=api)
    node.listed(holding("a", A))
    node.recorded(record("a", "u-a"))
    assert node.claims() == {"k8s/ml/a/u-a": [A]}
    return node
