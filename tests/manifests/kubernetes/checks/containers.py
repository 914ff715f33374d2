"""A container's ports, environment and probes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .cluster import Cluster, Pod

_PORT_NAME = re.compile(r"(?!-)(?!.*--)[-a-z0-9]*[a-z][-a-z0-9]*(?<!-)")
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_FIELDS = re.compile(
    r"metadata\.(name|namespace|uid|(labels|annotations)(\['[^']+'\])?)"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?)"
)
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
_HANDLERS = ("httpGet", "tcpSocket", "exec", "grpc")


def is_port_name(text: str) -> bool:
    return len(text) <= 15 and bool(_PORT_NAME.fullmatch(text))


def ports(cluster: Cluster) -> Iterator[str]:
    for pod in cluster.pods:
        for path, container in pod.containers():
            given = container.get("ports") or ()
            for index, port in enumerate(given):
                for key in ("containerPort", "hostPort"):
                    if key in port and not 1 <= port[key] <= 65535:
                        yield f"{path}.ports[{index}].{key}: {port[key]} is not between 1 and 65535"
                if "name" in port and not is_port_name(port["name"]):
                    yield f"{path}.ports[{index}].name: cannot be {port['name']!r}"
            numbers = Counter((port.get("containerPort"), port.get("protocol", "TCP")) for port in given)
            for (number, protocol), count in numbers.items():
                if count > 1:
                    yield f"{path}.ports: {number}/{protocol} is there {count} times"
        for name, count in Counter(port["name"] for port in pod.ports() if "name" in port).items():
            if count > 1:
                yield f"{pod}: {count} ports are named {name}"


def environment(cluster: Cluster) -> Iterator[str]:
    for pod in cluster.pods:
        for path, container in pod.containers():
            given = container.get("env") or ()
            for name, count in Counter(one.get("name") for one in given).items():
                if count > 1:
                    yield f"{path}.env: {name} is there {count} times"
            for one in given:
                name = one.get("name") or ""
                if not _VARIABLE.fullmatch(name):
                    yield f"{path}.env: {name!r} cannot be a variable's name"
                if "valueFrom" in one:
                    if one.get("value"):
                        yield f"{path}.env: {name} has a value, and one from elsewhere"
                    if len(one["valueFrom"] or {}) != 1:
                        yield f"{path}.env: {name} is from one place"
                    field = (one["valueFrom"] or {}).get("fieldRef")
                    if field and not _FIELDS.fullmatch(field["fieldPath"]):
                        yield f"{path}.env: {name} is from {field['fieldPath']}, which is not offered"


def probes(cluster: Cluster) -> Iterator[str]:
    for pod in cluster.pods:
        for path, container in pod.containers():
            for kind in _PROBES:
                if kind in container:
                    yield from _probe(f"{path}.{kind}", container[kind], pod, kind)


def _probe(path: str, probe: dict[str, Any], pod: Pod, kind: str) -> Iterator[str]:
    handlers = [one for one in _HANDLERS if one in probe]
    if len(handlers) != 1:
        yield f"{path}: asks in one way, not in {handlers}"
    for handler in handlers:
        wanted = probe[handler]
        if handler != "exec" and not pod.has_port(wanted.get("port")):
            yield f"{path}.{handler}.port: there is no port {wanted.get('port')}"
        if handler == "httpGet" and not str(wanted.get("path", "/")).startswith("/"):
            yield f"{path}.httpGet.path: {wanted['path']} begins with no slash"
        if handler == "exec" and not wanted.get("command"):
            yield f"{path}.exec: no command"
    for key in ("periodSeconds", "timeoutSeconds", "failureThreshold", "successThreshold"):
        if probe.get(key, 1) < 1:
            yield f"{path}.{key}: is less than 1"
    if probe.get("initialDelaySeconds", 0) < 0:
        yield f"{path}.initialDelaySeconds: is negative"
    if kind != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        yield f"{path}.successThreshold: must be 1"
