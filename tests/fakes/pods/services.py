"""The Services of a cluster: which pods they lead to, by which names and addresses."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from tests.fakes.kubernetes import KubernetesServer

from .network import Network
from .pod import Pod

DOMAIN = "cluster.local"


class Services:
    """`pods` are those that run now."""

    network: Network

    def __init__(self, server: KubernetesServer, pods: list[Pod]) -> None:
        self.server, self.pods = server, pods
        self._addresses: dict[tuple[str, str], str] = {}

    def behind(self, namespace: str, service: str) -> list[Pod]:
        """The pods that a Service leads to."""
        spec = self.server.get("Service", namespace, service)["spec"]
        wanted = spec["selector"].items()
        return [
            pod
            for pod in self.pods
            if pod.metadata["namespace"] == namespace
            and wanted <= pod.metadata.get("labels", {}).items()
            and (pod.ready or spec.get("publishNotReadyAddresses", False))
        ]

    def forward(self, namespace: str, service: str, port: str) -> int:
        """A port of the tests' loopback that leads to a ready pod, by the Service's port."""
        return self.network.reach(lambda: self._endpoint(namespace, service, port))

    def serve(self, namespace: str, service: str, target: tuple[str, int], port: int) -> None:
        """A Service of that name, behind which is a server of the tests, on the machine's loopback."""
        self._addresses[namespace, service] = address = self._address()
        self.network.offer(address, port, target)

    def lead(self, namespace: str, service: str, port: int, find: Callable[[], tuple[str, int] | None]) -> None:
        """A Service of that name, behind which is a program in the network of the nodes."""
        self._addresses[namespace, service] = address = self._address()
        self.network.service(address, port, find)

    def _endpoint(self, namespace: str, service: str, port: str) -> tuple[str, int] | None:
        (found,) = (
            one for one in self.server.get("Service", namespace, service)["spec"]["ports"] if one["name"] == port
        )
        pods = self.behind(namespace, service)
        return (pods[0].address, pods[0].port(found["targetPort"])) if pods else None

    def resolve(self, name: str) -> list[str] | None:
        """What the cluster's DNS says of a name."""
        parts = re.fullmatch(rf"([^.]+)\.([^.]+)\.svc\.{re.escape(DOMAIN)}", name)
        if parts is None:
            return None
        service, namespace = parts.groups()
        if (namespace, service) in self._addresses:
            return [self._addresses[namespace, service]]
        try:
            spec = self.server.get("Service", namespace, service)["spec"]
        except KeyError:
            return None
        if spec.get("clusterIP") == "None":
            return [pod.address for pod in self.behind(namespace, service)]
        self._addresses[namespace, service] = address = self._address()
        for port in spec["ports"]:
            self.network.service(address, port["port"], partial(self._endpoint, namespace, service, port["name"]))
        return [address]

    def _address(self) -> str:
        return f"10.96.1.{len(self._addresses) + 1}"
