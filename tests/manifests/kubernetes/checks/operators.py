"""What Prometheus' operator is told to run: each server finds what it scrapes and evaluates, and may look for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .cluster import Cluster, Object, matches, namespace, title

_TAKES = {
    "podMonitor": "PodMonitor",
    "serviceMonitor": "ServiceMonitor",
    "probe": "Probe",
    "scrapeConfig": "ScrapeConfig",
    "rule": "PrometheusRule",
}
"""What a server's selectors are called, without `Selector` and `NamespaceSelector`, and the kinds that they are for."""
_SERVERS = ("Prometheus", "PrometheusAgent", "ThanosRuler")
_NAME = "kubernetes.io/metadata.name"
_READS = {"get", "list", "watch"}


def selectors(cluster: Cluster) -> Iterator[str]:
    """Where servers are among the objects, what is for them is taken by one at least, and none looks for nothing."""
    for of, kind in _TAKES.items():
        servers = [one for one in cluster.of(*_SERVERS) if one["spec"].get(f"{of}Selector") is not None]
        taken: set[str] = set()
        for server in servers:
            found = {title(one) for one in cluster.of(kind) if _is_taken(one, server, of, cluster)}
            if not found:
                yield f"{title(server)}: spec.{of}Selector matches no {kind}"
            taken |= found
        for one in cluster.of(kind) if taken else ():
            if title(one) not in taken:
                yield f"{title(one)}: none of {[title(server) for server in servers]} takes it"
    for server in cluster.of(*_SERVERS):
        if not any(server["spec"].get(f"{of}Selector") is not None for of in _TAKES):
            yield f"{title(server)}: it selects nothing"


def _is_taken(one: Object, server: Object, of: str, cluster: Cluster) -> bool:
    """The operator's: no namespace selector is the server's own namespace, an empty selector is all."""
    spaces = server["spec"].get(f"{of}NamespaceSelector")
    if spaces is None and namespace(one) != namespace(server):
        return False
    if spaces is not None and not matches(spaces, _labels_of_namespace(cluster, namespace(one))):
        return False
    return matches(server["spec"][f"{of}Selector"], one["metadata"].get("labels") or {})


def _labels_of_namespace(cluster: Cluster, called: str) -> Mapping[str, str]:
    """Of one that was there before its name alone is known."""
    found = cluster.find("Namespace", called)
    return {_NAME: called, **((found["metadata"].get("labels") or {}) if found else {})}


def rights(cluster: Cluster) -> Iterator[str]:
    """A server finds pods by asking for them, with its own account. Of one that was there before nothing is known."""
    for server in cluster.of("Prometheus", "PrometheusAgent"):
        account = server["spec"].get("serviceAccountName", "default")
        if ("ServiceAccount", account) in cluster.provided:
            continue
        missing = _READS - _verbs(cluster, account, namespace(server))
        if server["spec"].get("podMonitorSelector") is not None and missing:
            yield f"{title(server)}: ServiceAccount {account} may not {', '.join(sorted(missing))} pods"


def _verbs(cluster: Cluster, account: str, within: str) -> set[str]:
    """What an account may do to pods, everywhere."""
    found: set[str] = set()
    for binding in cluster.of("ClusterRoleBinding"):
        role: Any = cluster.find("ClusterRole", binding["roleRef"]["name"]) or {}
        whose = {(one["kind"], one.get("namespace"), one["name"]) for one in binding.get("subjects") or ()}
        for rule in role.get("rules") or () if ("ServiceAccount", within, account) in whose else ():
            if "" in rule.get("apiGroups", ()) and "pods" in rule.get("resources", ()):
                found |= set(rule["verbs"])
    return found
