"""What else selects pods: network policies, disruption budgets, monitors. And the bindings of admission policies."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

from .cluster import Cluster, Object, matches, namespace, title, walk
from .identity import is_label_key, is_label_value

_OPERATORS = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
_DURATION = re.compile(r"(?=.)(\d+y)?(\d+w)?(\d+d)?(\d+h)?(\d+m(?!s))?(\d+s)?(\d+ms)?")


def expressions(cluster: Cluster) -> Iterator[str]:
    """Every LabelSelector, wherever it stands: its keys, its operators, and whether these take values."""
    for one in cluster.objects:
        for path, value in walk(one):
            if not isinstance(value, dict) or "nodeSelectorTerms" in path:
                continue
            for key, wanted in (value.get("matchLabels") or {}).items() if "matchLabels" in value else ():
                if not is_label_key(key) or not isinstance(wanted, str) or not is_label_value(wanted):
                    yield f"{title(one)}: {path}.matchLabels: {key}: {wanted!r}"
            listed = value.get("matchExpressions")
            for said in listed if isinstance(listed, list) and "preference" not in path else ():
                takes = _OPERATORS.get(said.get("operator"))
                if takes is None or takes != bool(said.get("values")) or not is_label_key(said.get("key") or ""):
                    yield f"{title(one)}: {path}.matchExpressions: {said}"


def network_policies(cluster: Cluster) -> Iterator[str]:
    for one in cluster.of("NetworkPolicy"):
        spec = one["spec"]
        found = cluster.selected(spec.get("podSelector") or {}, namespace(one))
        if not found:
            yield f"{title(one)}: spec.podSelector matches no pod"
        types = spec.get("policyTypes") or ()
        for direction, peers in (("Ingress", "from"), ("Egress", "to")):
            rules = spec.get(direction.lower())
            if direction not in types and rules:
                yield f"{title(one)}: {direction.lower()} rules without policyTypes {direction} do nothing"
            for index, rule in enumerate(rules or ()):
                where = f"{title(one)}: spec.{direction.lower()}[{index}]"
                for port in rule.get("ports") or ():
                    yield from _port(where, port, [pod.has_port(port.get("port")) for pod in found], direction)
                for peer in rule.get(peers) or ():
                    yield from _peer(where, peer, cluster, one)


def _port(where: str, port: Object, have: list[bool], direction: str) -> Iterator[str]:
    number = port.get("port")
    if isinstance(number, int) and not 1 <= number <= 65535:
        yield f"{where}.ports: {number} is not between 1 and 65535"
    if direction == "Ingress" and number is not None and not all(have):
        yield f"{where}.ports: its pods have no port {number}"
    if "endPort" in port and (not isinstance(number, int) or port["endPort"] < number):
        yield f"{where}.ports: endPort"


def _peer(where: str, peer: Object, cluster: Cluster, policy: Object) -> Iterator[str]:
    if not peer:
        yield f"{where}: a peer that is nobody"
    if "ipBlock" in peer:
        if len(peer) > 1:
            yield f"{where}: ipBlock stands alone"
        try:
            block = ipaddress.ip_network(peer["ipBlock"]["cidr"])
            if any(not ipaddress.ip_network(one).subnet_of(block) for one in peer["ipBlock"].get("except") or ()):  # type: ignore[arg-type]
                yield f"{where}: ipBlock.except is outside of it"
        except (ValueError, TypeError) as error:
            yield f"{where}: ipBlock: {error}"
    # Of namespaces that are not ours nothing can be known.
    own = "podSelector" in peer and "namespaceSelector" not in peer
    if own and not cluster.selected(peer["podSelector"], namespace(policy)):
        yield f"{where}: a peer's podSelector matches no pod"


def disruption_budgets(cluster: Cluster) -> Iterator[str]:
    for one in cluster.of("PodDisruptionBudget"):
        spec = one["spec"]
        if ("minAvailable" in spec) == ("maxUnavailable" in spec):
            yield f"{title(one)}: one of minAvailable and maxUnavailable"
        found = cluster.selected(spec.get("selector"), namespace(one))
        if not found:
            yield f"{title(one)}: spec.selector matches no pod"
        for pod in found:
            replicas = pod.owner.get("spec", {}).get("replicas", 1)
            if pod.owner["kind"] == "DaemonSet":
                continue
            if spec.get("minAvailable") in (replicas, "100%") or spec.get("maxUnavailable") in (0, "0%"):
                yield f"{title(one)}: no pod of {title(pod.owner)} may ever be evicted: nodes cannot be drained"


def monitors(cluster: Cluster) -> Iterator[str]:
    for one in cluster.of("PodMonitor", "ServiceMonitor"):
        spec, services = one["spec"], one["kind"] == "ServiceMonitor"
        endpoints = spec.get("endpoints" if services else "podMetricsEndpoints") or []
        if not endpoints:
            yield f"{title(one)}: no endpoints"
        spaces = _namespaces(spec.get("namespaceSelector") or {}, one, cluster)
        selector = spec.get("selector") or {}
        if services:
            found = [s for s in cluster.of("Service") if namespace(s) in spaces and matches(selector, _labels(s))]
            names = [{port.get("name") for port in service["spec"].get("ports") or ()} for service in found]
        else:
            names = [
                {p.get("name") for p in pod.ports()} for space in spaces for pod in cluster.selected(selector, space)
            ]
        if not names:
            yield f"{title(one)}: spec.selector matches nothing"
        for index, endpoint in enumerate(endpoints):
            where = f"{title(one)}: endpoints[{index}]"
            for offered in names:
                if "port" in endpoint and endpoint["port"] not in offered:
                    yield f"{where}: there is no port {endpoint['port']}"
            if _seconds(endpoint.get("scrapeTimeout", "0s")) > _seconds(endpoint.get("interval", "1y")):
                yield f"{where}: scrapeTimeout is longer than interval"


def _labels(one: Object) -> dict[str, str]:
    return one["metadata"].get("labels") or {}


def _namespaces(selector: dict[str, Any], one: Object, cluster: Cluster) -> set[str]:
    if selector.get("any"):
        return {namespace(other) for other in cluster.objects}
    return set(selector.get("matchNames") or [namespace(one)])


def _seconds(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None:
        return 0
    units = (31536000000, 604800000, 86400000, 3600000, 60000, 1000, 1)
    letters = "ywdhms"
    return sum(int(part.rstrip(letters)) * unit for part, unit in zip(found.groups(), units, strict=True) if part)


def admission(cluster: Cluster) -> Iterator[str]:
    for kind in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"):
        bound = {one["spec"].get("policyName") for one in cluster.of(f"{kind}Binding")}
        for one in cluster.of(f"{kind}Binding"):
            if not cluster.has(kind, one["spec"].get("policyName", "")):
                yield f"{title(one)}: there is no {kind} {one['spec'].get('policyName')}"
        for one in cluster.of(kind):
            if one["metadata"]["name"] not in bound:
                yield f"{title(one)}: no binding puts it in force"
