"""Services, and what leads to them: their ports, and that pods are behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .cluster import Cluster, namespace, title
from .containers import is_port_name


def ports(cluster: Cluster) -> Iterator[str]:
    for one in cluster.of("Service"):
        given = one["spec"].get("ports") or []
        if not given and one["spec"].get("clusterIP") != "None":
            yield f"{title(one)}: spec.ports is empty"
        for index, port in enumerate(given):
            where = f"{title(one)}: spec.ports[{index}]"
            if not 1 <= port.get("port", 0) <= 65535:
                yield f"{where}.port: {port.get('port')} is not between 1 and 65535"
            if len(given) > 1 and not port.get("name"):
                yield f"{where}.name: one of several needs a name"
            if "name" in port and (not is_port_name(port["name"]) or port["name"][0].isdigit()):
                yield f"{where}.name: cannot be {port['name']!r}"
            # Behind a headless one nothing translates: a client that trusts the port reaches nobody.
            target = port.get("targetPort", port.get("port"))
            if one["spec"].get("clusterIP") == "None":
                for pod in cluster.selected(_selector(one), namespace(one)):
                    numbers = {
                        p.get("containerPort") for p in pod.ports() if target in (p.get("name"), p["containerPort"])
                    }
                    if numbers and port.get("port") not in numbers:
                        yield f"{where}.port: headless, but the pods' port is {sorted(numbers)}"
        for key in ("name", "port"):
            counted = Counter((port.get(key), port.get("protocol", "TCP") if key == "port" else "") for port in given)
            for (value, _), count in counted.items():
                if count > 1:
                    yield f"{title(one)}: spec.ports: {key} {value} is there {count} times"


def _selector(one: dict[str, dict[str, object]]) -> dict[str, object] | None:
    selector = one["spec"].get("selector")
    return {"matchLabels": selector} if selector else None


def selected(cluster: Cluster) -> Iterator[str]:
    for one in cluster.of("Service"):
        if one["spec"].get("type") == "ExternalName":
            continue
        found = cluster.selected(_selector(one), namespace(one))
        if not found:
            yield f"{title(one)}: spec.selector matches no pod"
        for pod in found:
            for port in one["spec"].get("ports") or ():
                target = port.get("targetPort", port.get("port"))
                if not pod.has_port(target):
                    yield f"{title(one)}: {title(pod.owner)} has no port {target}"
        if len({title(pod.owner) for pod in found}) > 1:
            yield f"{title(one)}: spec.selector takes the pods of several: {sorted(title(pod.owner) for pod in found)}"


def claims(cluster: Cluster) -> Iterator[str]:
    """Routes and Ingresses lead to a Service and one of its ports."""
    for one in cluster.of("Route"):
        to = one["spec"].get("to") or {}
        service = cluster.find("Service", to.get("name", ""), namespace(one))
        if service is None:
            yield f"{title(one)}: there is no Service {to.get('name')}"
            continue
        wanted = (one["spec"].get("port") or {}).get("targetPort")
        offered = {port.get(key) for port in service["spec"].get("ports") or () for key in ("name", "targetPort")}
        if wanted is not None and wanted not in offered:
            yield f"{title(one)}: Service {to['name']} has no port {wanted}"
    for one in cluster.of("Ingress"):
        for rule in one["spec"].get("rules") or ():
            for path in (rule.get("http") or {}).get("paths") or ():
                backend = path["backend"]["service"]
                service = cluster.find("Service", backend["name"], namespace(one))
                if service is None:
                    yield f"{title(one)}: there is no Service {backend['name']}"
                    continue
                wanted = backend["port"].get("name", backend["port"].get("number"))
                if wanted not in {port.get(key) for port in service["spec"]["ports"] for key in ("name", "port")}:
                    yield f"{title(one)}: Service {backend['name']} has no port {wanted}"
