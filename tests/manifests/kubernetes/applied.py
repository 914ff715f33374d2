"""Objects of manifests beside what an API server has made of them."""

from __future__ import annotations

from typing import Any

from tests.fakes.kubernetes import KubernetesServer


def called(one: dict[str, Any]) -> str:
    """As kubectl calls an object."""
    group = one["apiVersion"].rpartition("/")[0]
    return f"{one['kind'].lower()}{'.' if group else ''}{group}/{one['metadata']['name']}"


def kept(server: KubernetesServer, wanted: dict[str, Any]) -> dict[str, Any]:
    group = wanted["apiVersion"].rpartition("/")[0]
    kind = f"{wanted['kind']}.{group}" if group else wanted["kind"]
    return server.get(kind, wanted["metadata"].get("namespace", ""), wanted["metadata"]["name"])


def holds(live: Any, wanted: Any) -> bool:
    """Whether all that a manifest says is there; a server adds to it."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(holds(live.get(name), inner) for name, inner in wanted.items())
    if isinstance(wanted, list):
        same = isinstance(live, list) and len(live) == len(wanted)
        return same and all(holds(one, other) for one, other in zip(live, wanted, strict=True))
    return bool(live == wanted)
