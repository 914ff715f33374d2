"""What a real API server, or the cluster behind it, refuses though the schemas allow it: `objections` finds it first.

Each check is a function of a Cluster that yields sentences. Nothing here knows of Dutycycle's own manifests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import (
    containers,
    identity,
    operators,
    pods,
    references,
    resources,
    roles,
    selectors,
    services,
    volumes,
    workloads,
)
from .cluster import Cluster, Object

Check = Callable[[Cluster], Iterator[str]]

CHECKS: tuple[Check, ...] = (
    identity.said,
    identity.unique,
    identity.names,
    identity.namespaces,
    identity.labels,
    identity.annotations,
    identity.nothing_is_null,
    identity.keys_of_data,
    workloads.selectors,
    workloads.replicas,
    workloads.strategies,
    workloads.volumes_of_one_node,
    workloads.restarts,
    pods.containers_are_named,
    pods.security,
    pods.host,
    pods.tolerations,
    pods.placement,
    pods.annotations,
    containers.ports,
    containers.environment,
    containers.probes,
    volumes.sources,
    volumes.mounts,
    volumes.unused,
    resources.quantities,
    references.of_pods,
    references.of_custom,
    references.of_claims,
    references.unused,
    roles.rules,
    roles.bindings,
    roles.subjects,
    roles.unused,
    services.ports,
    services.selected,
    services.claims,
    selectors.expressions,
    selectors.network_policies,
    selectors.disruption_budgets,
    selectors.monitors,
    selectors.admission,
    operators.selectors,
    operators.rights,
)


def objections(objects: list[Object], *, provided: frozenset[tuple[str, str]] = frozenset()) -> list[str]:
    """What the checks have against these objects. `provided` are (kind, name) that the cluster has already."""
    cluster = Cluster(tuple(objects), provided)
    # The others rely on these.
    if broken := [*identity.said(cluster), *identity.nothing_is_null(cluster)]:
        return broken
    return [found for check in CHECKS for found in check(cluster)]
