"""Who may open a connection to whom, as the NetworkPolicies among some objects say. Pure.

A pod's own node reaches it whatever they say, and is not judged here: probes, `kubectl port-forward`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .checks.cluster import Object, matches, namespace

_NAME = "kubernetes.io/metadata.name"


@dataclass(frozen=True)
class Peer:
    """A pod, or with `namespace` empty who has this address: a machine, the API server, a pod of the host's network."""

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    of_namespace: Mapping[str, str] = field(default_factory=dict)
    """Labels of its namespace, beside the name that each has."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Of its containers, by their names."""
    address: str = "192.0.2.1"


def reaches(policies: Iterable[Object], source: Peer, target: Peer, port: int, protocol: str = "TCP") -> bool:
    """Both must allow it: what the source may open, and what the target lets in."""
    given = tuple(one for one in policies if one["kind"] == "NetworkPolicy")
    out = _allows(given, "Egress", source, target, port, protocol, target.ports)
    return out and _allows(given, "Ingress", target, source, port, protocol, target.ports)


def _allows(
    policies: tuple[Object, ...],
    direction: str,
    own: Peer,
    other: Peer,
    port: int,
    protocol: str,
    names: Mapping[str, int],
) -> bool:
    """All is allowed to a pod that no policy of this direction selects; else what one of them allows."""
    of_it = [one for one in policies if _selects(one, own) and direction in _types(one["spec"])]
    return not of_it or any(
        _has_port(rule, port, protocol, names) and _has_peer(rule, direction, own, other)
        for one in of_it
        for rule in one["spec"].get(direction.lower()) or ()
    )


def _selects(policy: Object, pod: Peer) -> bool:
    return namespace(policy) == pod.namespace != "" and matches(policy["spec"].get("podSelector") or {}, pod.labels)


def _types(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Ingress always and Egress where it has such rules, unless it says so itself."""
    return tuple(spec.get("policyTypes") or (("Ingress", "Egress") if spec.get("egress") else ("Ingress",)))


def _has_port(rule: Mapping[str, Any], port: int, protocol: str, names: Mapping[str, int]) -> bool:
    """Without ports all of them."""
    return not rule.get("ports") or any(_is_port(one, port, protocol, names) for one in rule["ports"])


def _is_port(one: Mapping[str, Any], port: int, protocol: str, names: Mapping[str, int]) -> bool:
    wanted = one.get("port")
    if one.get("protocol", "TCP") != protocol:
        return False
    if isinstance(wanted, str):
        return names.get(wanted) == port
    return wanted is None or wanted <= port <= one.get("endPort", wanted)


def _has_peer(rule: Mapping[str, Any], direction: str, own: Peer, other: Peer) -> bool:
    """Without peers everybody."""
    peers = rule.get("from" if direction == "Ingress" else "to")
    return not peers or any(_is_peer(one, own, other) for one in peers)


def _is_peer(one: Mapping[str, Any], own: Peer, other: Peer) -> bool:
    if "ipBlock" in one:
        address, block = ipaddress.ip_address(other.address), one["ipBlock"]
        # Which address of a pod a policy sees depends on the network plugin: blocks are for what is no pod.
        outside = any(address in ipaddress.ip_network(each) for each in block.get("except") or ())
        return not other.namespace and address in ipaddress.ip_network(block["cidr"]) and not outside
    if not other.namespace:
        return False
    if "namespaceSelector" in one:
        if not matches(one["namespaceSelector"] or {}, {_NAME: other.namespace, **other.of_namespace}):
            return False
    elif other.namespace != own.namespace:
        return False
    return matches(one.get("podSelector") or {}, other.labels)
