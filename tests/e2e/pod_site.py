"""A Kubernetes cluster into which Dutycycle is put by `kubectl apply`, and whose pods run as the manifests say.

The API server, the kubelets' pod-resources and the GPUs are doubles; kubectl, the images, their programs, namespaces,
mounts and users are real.
"""

from __future__ import annotations

import copy
import http.client
import json
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.exporter.certificates import Authority
from tests.fakes import kubelet
from tests.fakes.kubernetes import KubernetesServer, owner, pod, workload
from tests.fakes.kubernetes import node as node_object
from tests.fakes.kubernetes.kubectl import Kubectl
from tests.fakes.node import FakeNode, NodeJob
from tests.fakes.nvml import Libraries, Pattern
from tests.fakes.pods import Cluster, Node, Pod
from tests.fakes.pods.network import API_ADDRESS
from tests.fakes.pods.nvidia import Driver
from tests.images.image import Image
from tests.required import lacking

NAMESPACE = "dutycycle"
EXPORTER, ALERTER = "dutycycle-exporter", "dutycycle-alerter"
GPU_LABEL = {"nvidia.com/gpu.present": "true"}
POD_RESOURCES = "/var/lib/kubelet/pod-resources"
LOGS = "/var/log/containers"
INTERVAL = 30.0
"""Seconds between two scrapes of the full-length run, and between two reads of NVML."""
_PROGRAMS = ("ip", "nsenter", "openssl", "setpriv", "unshare")


class PodSite:
    """A context manager. Time goes `time_scale` times as fast for GPUs, exporters and alerter; probes' does not."""

    def __init__(self, directory: Path, libraries: Libraries, images: Mapping[str, Image], time_scale: float) -> None:
        if missing := [program for program in _PROGRAMS if shutil.which(program) is None]:
            lacking(" and ".join(missing))
        self.directory, self.time_scale = directory, time_scale
        self._libraries, self._images = libraries, images
        self.machines: dict[str, FakeNode] = {}
        self.kubelets: dict[str, kubelet.FakeKubelet] = {}
        self._used: dict[str, int] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        authority = Authority(self.directory)
        pair = authority.issue("kubernetes", f"IP:{API_ADDRESS}", "IP:127.0.0.1", "DNS:kubernetes.default.svc")
        self.server = self._open.enter_context(
            KubernetesServer(tls=(pair.cert, pair.key), namespaces=("default", "kube-system", "ml", "monitoring"))
        )
        self.server.install("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
        home = self.directory / "kubectl"
        home.mkdir()
        self.kubectl = Kubectl(self.server, home, authority.pair.cert)
        # Short, as the path of a socket has to be.
        self._roots = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="nodes-")))
        self._open.callback(self._stop_nodes)
        self.cluster = self._open.enter_context(Cluster(self.server, authority.pair.cert, self._images, self.directory))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for each in self.cluster.pods:
                print(f"--- {each.name}, started again {each.restarts} times\n{each.log[-4000:]}")
        self._open.__exit__(kind, error, trace)

    def install_operator(self) -> None:
        """The kinds of the Prometheus operator, without what it does."""
        for kind in ("PodMonitor", "PrometheusRule", "ServiceMonitor"):
            self.server.install("monitoring.coreos.com", "v1", kind, f"{kind.lower()}s", status=False)

    def add_node(self, name: str, gpus: int) -> FakeNode:
        """A node of Kubernetes with GPUs, with NVIDIA's driver and container toolkit."""
        machine = FakeNode(
            self.directory / name,
            self._libraries,
            name=name,
            gpus=gpus,
            time_scale=self.time_scale,
            capacity=1000,
            sample_period=0.5,
        )
        root = self._roots / name
        socket = root / POD_RESOURCES.lstrip("/") / "kubelet.sock"
        self.kubelets[name] = kubelet.FakeKubelet(socket).start()
        socket.parent.chmod(0o750)
        paths = machine.paths
        driver = Driver(self._libraries.directory / "libnvidia-ml.so.1", machine.driver.state.path)
        self.cluster.nodes.append(
            Node(
                name,
                root,
                {"/proc": paths["procfs"], "/sys/fs/cgroup": paths["cgroup"], "/sys": paths["sysfs"]},
                paths["sysfs"],
                GPU_LABEL,
                driver,
            )
        )
        self.server.put(node_object(name, gpus))
        self.machines[name], self._used[name] = machine, 0
        return machine

    def _stop_nodes(self) -> None:
        for one in self.kubelets.values():
            one.stop()
        for machine in self.machines.values():
            machine.__exit__(None, None, None)

    def run(self, name: str, where: str, parts: Iterable[tuple[str, Pattern]], *, user: str) -> list[NodeJob]:
        """A PyTorchJob of one-GPU pods on the next free GPUs of a node, as its controller and the kubelet make it."""
        machine, moment = self.machines[where], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        made = self.server.put(
            workload(
                "PyTorchJob",
                name,
                api_version="kubeflow.org/v1",
                annotations={"dutycycle.io/user": user},
                created=moment,
            )
        )
        running = []
        for part, pattern in parts:
            gpu, self._used[where] = self._used[where], self._used[where] + 1
            uid = str(uuid.uuid4())
            self.server.put(pod(part, uid=uid, node=where, owners=(owner(made),), created=moment, started=moment))
            device = {"nvidia.com/gpu": [machine.driver.gpus[gpu].uuid]}
            self.kubelets[where].pods = [*self.kubelets[where].pods, kubelet.pod(part, "ml", device)]
            kubelet.link_logs(self._roots / where / LOGS.lstrip("/"), part, uid)
            running.append(machine.pod(uid, {gpu: pattern}))
        return running

    def start(self) -> None:
        """Time begins on all nodes."""
        for machine in self.machines.values():
            machine.start()

    # What was applied

    def exporters(self) -> dict[str, Any]:
        """The DaemonSet as the server has it, with this site's pace."""
        found = copy.deepcopy(self.server.get("DaemonSet", NAMESPACE, EXPORTER))
        (container,) = found["spec"]["template"]["spec"]["containers"]
        pace = {"TIME_SCALE": f"{self.time_scale:g}", "SAMPLE_INTERVAL": f"{INTERVAL:g}s"}
        pace["SERIES_HOLD"] = f"{2 * INTERVAL:g}s"
        container["env"] += [{"name": f"DUTYCYCLE_EXPORTER_{name}", "value": value} for name, value in pace.items()]
        return found

    def alerter(self, **settings: Any) -> dict[str, Any]:
        """The Deployment as the server has it; its ConfigMap gets this site's pace, and what else is said."""
        found = self.server.get("Deployment", NAMESPACE, ALERTER)
        volumes = found["spec"]["template"]["spec"]["volumes"]
        (name,) = [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
        data = self.server.get("ConfigMap", NAMESPACE, name)["data"]
        given = yaml.safe_load(data["config.yaml"])
        for section, values in {"time_scale": self.time_scale, **settings}.items():
            given[section] = {**given.get(section, {}), **values} if isinstance(values, dict) else values
        self.server.patch("ConfigMap", NAMESPACE, name, {"data": {"config.yaml": yaml.safe_dump(given)}})
        return found

    def get(self, path: str) -> Any:
        """Of the alerter's API, through its Service. OSError where none is ready, or its store does not answer yet."""
        status, body = self.page(path)
        if status == 503:
            raise ConnectionError(body)
        assert status == 200, body
        return json.loads(body)

    def page(self, path: str, pod: Pod | None = None) -> tuple[int, str]:
        """Through the Service, by its name; or of one of its pods."""
        if not hasattr(self, "_port"):
            self._port = self.cluster.services.forward(NAMESPACE, ALERTER, "http")
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        if pod is not None:
            connection.sock = self.cluster.network.connect(
                pod.address, pod.port("health" if path == "/metrics" else "http"), 20
            )
        try:
            connection.request("GET", path, headers={"Host": f"{ALERTER}.{NAMESPACE}:9837"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()

    def incidents(self) -> list[dict[str, Any]]:
        """Every incident of a job, resolved ones included."""
        found = self.get("/api/v1/incidents?limit=200")["incidents"]
        return [incident for incident in found if incident["kind"] == "efficiency"]
