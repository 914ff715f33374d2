"""A cluster's nodes and controllers: makes the pods that DaemonSets and Deployments ask for, and tells them what is so.

Objects are those of the tests' API server.
"""

from __future__ import annotations

import base64
import secrets
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

from tests.fakes.kubernetes import KubernetesServer
from tests.images.image import Image

from .accounts import Accounts
from .container import BindMount
from .network import API_ADDRESS, DNS_ADDRESS, GATEWAY, Namespace, Network
from .nvidia import Driver, toolkit
from .pod import Pod, Runtime
from .services import DOMAIN, Services
from .spec import Container, Surroundings, plan
from .spec import Image as SpecImage
from .volumes import Sources

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_API_PORT = 443

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Node:
    """A machine. `root` is its file system but for `paths`; `sysfs` is what containers see as /sys. With a `driver`,
    NVIDIA's container runtime is the default one.
    """

    name: str
    root: Path
    paths: Mapping[str, Path] = field(default_factory=dict)
    sysfs: Path | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    driver: Driver | None = None

    def path(self, asked: str) -> Path:
        """Where a path of the node is here."""
        for prefix in sorted(self.paths, key=len, reverse=True):
            if PurePosixPath(asked).is_relative_to(prefix):
                return self.paths[prefix] / PurePosixPath(asked).relative_to(prefix)
        return self.root / asked.lstrip("/")


class Cluster:
    """A context manager, over a server that serves TLS as 10.96.0.1. `images` are by the names in manifests, without
    registry and version.
    """

    def __init__(self, server: KubernetesServer, authority: Path, images: Mapping[str, Image], directory: Path) -> None:
        self.server, self.directory = server, directory
        self.nodes: list[Node] = []
        self.pods: list[Pod] = []
        self.accounts = Accounts(server)
        self.services = Services(server, self.pods)
        self.network = self.services.network = Network(self.services.resolve)
        self._authority, self._images = authority, images
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(self.network)
        host, _, port = self.server.url.rpartition("/")[2].partition(":")
        self.network.offer(API_ADDRESS, _API_PORT, (host, int(port)))
        self._open.callback(self._stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    # What controllers do

    def roll_out(self, workload: Object, *, trace: Path | None = None) -> list[Pod]:
        """Starts the pods of a DaemonSet, on each node that it selects, or of a Deployment, each on the first node that
        may have it; one that no node may have is pending, and not started.
        """
        spec = workload["spec"]["template"]["spec"]
        nodes = [node for node in self.nodes if selects(spec, node.name, node.labels)]
        if workload["kind"] == "DaemonSet":
            return [self._start(workload, node, trace) for node in nodes]
        started: list[Pod] = []
        for _ in range(workload["spec"]["replicas"]):
            free = [node for node in nodes if not repelled(spec, [pod for pod in self.pods if pod.node == node.name])]
            started += [self._start(workload, node, trace) for node in free[:1]]
        return started

    def replace(self, pod: Pod, workload: Object, *, grace: float | None = None) -> Pod:
        """What a controller does when a pod is deleted: another, on the same node. `grace` 0 kills it."""
        self.end(pod, grace=grace)
        return self._start(workload, next(node for node in self.nodes if node.name == pod.node), None)

    def end(self, pod: Pod, *, grace: float | None = None) -> None:
        """The pod is deleted."""
        pod.stop(grace)
        self.pods.remove(pod)
        self.server.delete("Pod", pod.metadata["namespace"], pod.name)

    def _start(self, workload: Object, node: Node, trace: Path | None) -> Pod:
        namespace, template = workload["metadata"]["namespace"], workload["spec"]["template"]
        name = f"{workload['metadata']['name']}-{secrets.token_hex(3)}"
        metadata = {**template.get("metadata", {}), "name": name, "namespace": namespace, "uid": str(uuid.uuid4())}
        joined = self.network.join()
        try:
            pod = self._made(metadata, template["spec"], node, joined, trace)
        except BaseException:
            joined[0].close()
            raise
        self.pods.append(pod)
        self._tell(pod, template["spec"])
        pod.start(self._given(pod, node))
        return pod

    def _made(
        self, metadata: Object, spec: Object, node: Node, joined: tuple[Namespace, str], trace: Path | None
    ) -> Pod:
        namespace = metadata["namespace"]
        directory = self.directory / "pods" / metadata["name"]
        directory.mkdir(parents=True)
        around = Surroundings(
            metadata=metadata,
            node=node.name,
            ip=joined[1],
            host_ip=GATEWAY,
            services={
                "KUBERNETES_SERVICE_HOST": API_ADDRESS,
                "KUBERNETES_SERVICE_PORT": str(_API_PORT),
                "KUBERNETES_SERVICE_PORT_HTTPS": str(_API_PORT),
            },
            object_of=lambda kind, name: self._data(kind, namespace, name),
            image=lambda name: _as_spec(self._image(name)),
        )
        planned = plan(spec, around)

        def runtime(container: Container) -> Runtime:
            library, variables = toolkit(node.driver, container.environment)
            return Runtime(self._image(container.image).root, library, variables)

        def claim(name: str) -> Path:
            self.server.get("PersistentVolumeClaim", namespace, name)
            path = Path(self.directory, "claims", namespace, name)
            path.mkdir(parents=True, exist_ok=True)
            return path

        sources = Sources(
            host=node.path,
            claim=claim,
            object_of=around.object_of,
            token=lambda _: self.accounts.token(namespace, planned.account),
            metadata=metadata,
        )
        return Pod(
            metadata,
            node.name,
            self.network,
            joined,
            planned,
            sources,
            runtime,
            directory,
            trace=trace,
            changed=lambda: self._tell_again(metadata),
        )

    def _given(self, pod: Pod, node: Node) -> list[BindMount]:
        """What the kubelet puts into every container."""
        namespace, directory = pod.metadata["namespace"], self.directory / "pods" / pod.name / "given"
        directory.mkdir()
        search = f"{namespace}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}"
        files = {
            "/etc/resolv.conf": f"search {search}\nnameserver {DNS_ADDRESS}\noptions ndots:5\n",
            "/etc/hosts": f"127.0.0.1\tlocalhost\n::1\tlocalhost\n{pod.address}\t{pod.name}\n",
            "/etc/hostname": f"{pod.name}\n",
        }
        mounts = []
        for path, content in files.items():
            target = directory / path.rpartition("/")[2]
            target.write_text(content)
            mounts.append(BindMount(target, path, read_only=False))
        account = self.server.get("ServiceAccount", namespace, pod.plan.account)
        if account.get("automountServiceAccountToken", True) if pod.plan.token is None else pod.plan.token:
            secret = directory / "serviceaccount"
            secret.mkdir()
            (secret / "token").write_text(self.accounts.token(namespace, pod.plan.account))
            (secret / "ca.crt").write_bytes(self._authority.read_bytes())
            (secret / "namespace").write_text(namespace)
            mounts.append(BindMount(secret, _ACCOUNT, read_only=True))
        if node.sysfs is not None:
            mounts.append(BindMount(node.sysfs, "/sys", read_only=True))
        return mounts

    # What is told of pods

    def _tell(self, pod: Pod, spec: Object) -> None:
        given = {**spec, "nodeName": pod.node}
        self.server.put({"apiVersion": "v1", "kind": "Pod", "metadata": dict(pod.metadata), "spec": given})
        self._tell_again(pod.metadata)

    def _tell_again(self, metadata: Object) -> None:
        pod = next((pod for pod in self.pods if pod.metadata is metadata), None)
        if pod is not None:
            ready = {"type": "Ready", "status": str(pod.ready)}
            status = {"phase": "Running", "podIP": pod.address, "hostIP": GATEWAY, "conditions": [ready]}
            self.server.patch("Pod", metadata["namespace"], pod.name, {"status": status})

    def _data(self, kind: str, namespace: str, name: str) -> Mapping[str, str] | None:
        try:
            found = self.server.get(kind, namespace, name)
        except KeyError:
            return None
        data = found.get("data", {})
        return {key: base64.b64decode(data[key]).decode() for key in data} if kind == "Secret" else data

    def _image(self, name: str) -> Image:
        return self._images[name.rpartition("/")[2].partition(":")[0]]

    def _stop(self) -> None:
        for pod in list(self.pods):
            pod.stop(2)


def _as_spec(image: Image) -> SpecImage:
    return SpecImage(image.env, image.user, image.workdir, image.entrypoint, image.cmd)


def selects(spec: Object, name: str, own: Mapping[str, str]) -> bool:
    """Whether a pod may be on the node of this name, by its selector and its required affinity."""
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": name, **own}
    if not spec.get("nodeSelector", {}).items() <= labels.items():
        return False
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")
    return terms is None or any(all(_holds(one, labels) for one in term["matchExpressions"]) for term in terms)


def repelled(spec: Object, there: Sequence[Pod]) -> bool:
    """Whether a pod may not be on a node where these are, by its required anti-affinity; all are of one namespace."""
    terms = (
        spec.get("affinity", {}).get("podAntiAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
    )
    assert all(term["topologyKey"] == "kubernetes.io/hostname" for term in terms), "of nodes alone"
    return any(
        term["labelSelector"]["matchLabels"].items() <= pod.metadata.get("labels", {}).items()
        for term in terms
        for pod in there
    )


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values", [])
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[expression["operator"]]
