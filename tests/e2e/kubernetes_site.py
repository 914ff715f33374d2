"""A Kubernetes cluster of real exporters and an alerter, around doubles of GPUs, kubelets and the API server."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.e2e.site import Site
from tests.fakes import kubelet
from tests.fakes.kubernetes import KubernetesServer, node, owner, pod, workload
from tests.fakes.node import FakeNode, NodeJob, Work
from tests.fakes.nvml import Libraries, Pattern

INTERVAL = 30.0
"""Seconds between two scrapes of the full-length run, and between two reads of NVML."""
SAMPLE_PERIOD = 0.5
"""Seconds between two of NVML's own samples there: a machine with few cores cannot take as many in scaled time."""
TIMING = (f"--sample-interval={INTERVAL:g}s", f"--series-hold={2 * INTERVAL:g}s")
"""Of an exporter."""


@dataclass(frozen=True)
class Part:
    """One pod of a job, with a GPU: its name, what it does on the GPU, and whatever else it does."""

    name: str
    pattern: Pattern
    work: Work = field(default_factory=Work)


class KubernetesSite:
    """A context manager; what belongs to `site` (more nodes, the alerter) lasts as long."""

    def __init__(self, directory: Path, libraries: Libraries, time_scale: float) -> None:
        self.directory = directory
        self.site = Site(directory, libraries, time_scale)
        self.server = KubernetesServer(namespaces=("default", "kube-system", "ml", "slurm"))
        self._kubelets: dict[str, kubelet.FakeKubelet] = {}
        self._used: dict[str, int] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.server)
        self.server.install("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
        self.server.install("slinky.slurm.net", "v1beta1", "NodeSet", "nodesets")
        # Short, as the path of a socket has to be.
        self._sockets = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="kubelets-")))
        self._stack.callback(self._stop_kubelets)
        # Its processes end before what they are connected to.
        self._stack.enter_context(self.site)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def add_node(self, name: str, gpus: int = 8, *options: str) -> FakeNode:
        """A node of Kubernetes. Its exporter asks its kubelet, and knows pods by their cgroups."""
        path = self._sockets / f"{name}.sock"
        every = (f"--kubernetes.socket={path}", *TIMING, *options)
        machine = self.site.add_node(name, gpus=gpus, options=every, capacity=1000, sample_period=SAMPLE_PERIOD)
        self._kubelets[name] = kubelet.FakeKubelet(path).start()
        self._used[name] = 0
        self.server.put(node(name, gpus))
        return machine

    def run(
        self, kind: str, name: str, where: str, parts: Sequence[Part], *, api_version: str, user: str
    ) -> list[NodeJob]:
        """A job of one-GPU pods on the next free GPUs of a node, as its controller and the kubelet make it."""
        machine, moment = self.site.nodes[where], _now()
        annotations = {"dutycycle.io/user": user}
        made = self.server.put(workload(kind, name, api_version=api_version, annotations=annotations, created=moment))
        running = []
        for part in parts:
            gpu, self._used[where] = self._used[where], self._used[where] + 1
            uid = str(uuid.uuid4())
            self.server.put(pod(part.name, uid=uid, node=where, owners=(owner(made),), created=moment, started=moment))
            device = {"nvidia.com/gpu": [machine.driver.gpus[gpu].uuid]}
            self._kubelets[where].pods = [*self._kubelets[where].pods, kubelet.pod(part.name, "ml", device)]
            running.append(machine.pod(uid, {gpu: part.pattern}, part.work))
        return running

    def run_slurmd(self, name: str, where: str) -> str:
        """A pod that is a Slurm node and has all GPUs of a Kubernetes node, as Slinky makes it. Its uid."""
        machine, uid = self.site.nodes[where], str(uuid.uuid4())
        made = self.server.put(
            workload("NodeSet", "slurm", api_version="slinky.slurm.net/v1beta1", namespace="slurm", created=_now())
        )
        labels = {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker"}
        gpus = [gpu.uuid for gpu in machine.driver.gpus]
        times = {"created": _now(), "started": _now()}
        self.server.put(
            pod(
                name,
                namespace="slurm",
                uid=uid,
                node=where,
                gpus=len(gpus),
                owners=(owner(made),),
                labels=labels,
                **times,
            )
        )
        self._kubelets[where].pods = [kubelet.pod(name, "slurm", {"nvidia.com/gpu": gpus})]
        return uid

    def _stop_kubelets(self) -> None:
        for one in self._kubelets.values():
            one.stop()

    def start(self) -> None:
        """Time begins on all nodes, and their exporters are started."""
        for machine in self.site.nodes.values():
            machine.start()
        for exporter in self.site.exporters.values():
            exporter.start()

    def settings(self) -> dict[str, Any]:
        """The alerter's, but for where it keeps things."""
        path = self.directory / "kubeconfig.json"
        path.write_text(json.dumps(_kubeconfig(self.server.url, self.server.token)))
        targets = [exporter.url for exporter in self.site.exporters.values()]
        return {
            "source": {"targets": targets, "interval": f"{INTERVAL:g}s"},
            "kubernetes": [{"kubeconfig": str(path)}],
        }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _kubeconfig(url: str, token: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "site", "cluster": {"server": url}}],
        "users": [{"name": "dutycycle", "user": {"token": token}}],
        "contexts": [{"name": "site", "context": {"cluster": "site", "user": "dutycycle"}}],
        "current-context": "site",
    }
