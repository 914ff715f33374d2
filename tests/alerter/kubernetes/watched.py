"""A cluster of the alerter's on a test API server, at a pace that tests can wait for; and what is true of both."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter.kubernetes import fetching, lookups, reflector
from dutycycle_alerter.kubernetes.cluster import Cluster
from dutycycle_alerter.kubernetes.model import Snapshot
from dutycycle_alerter.kubernetes.pace import Pace
from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from tests.fakes.kubernetes import KubernetesServer

CALM = Pace(silence=60.0, watch=30.0, settle=0.05, first_pause=0.02, longest_pause=0.1, page=3)
IMPATIENT = replace(CALM, silence=0.6)
"""For a server that says nothing. On a busy machine one that is well may look like that."""
PATIENT = 30.0
"""Seconds after which a test that waits for something fails."""


def kubeconfig(directory: Path, server: str, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    """A kubeconfig with one context, `here`."""
    path = directory / "kubeconfig.json"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "one", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "me", "user": {"token": "admin"} if user is None else user}],
        "contexts": [{"name": "here", "context": {"cluster": "one", "user": "me"}}],
        "current-context": "here",
    }
    path.write_text(json.dumps(content))
    return path


@contextmanager
def watched(directory: Path, server: KubernetesServer, *, pace: Pace = CALM, **settings: Any) -> Iterator[Cluster]:
    """Watches the server; nothing is waited for."""
    own = ("per_second", "remember", "time_scale")
    keywords: dict[str, Any] = {name: settings.pop(name) for name in own if name in settings}
    path = settings.pop("kubeconfig", None) or kubeconfig(directory, server.url)
    found = KubernetesCluster(kubeconfig=path, **({"nodes": False} | settings))
    # What builders make is of one day, and so old at last that what ended then is of no interest.
    cluster = Cluster(found, pace=pace, **({"per_second": 1000.0, "remember": 1e9} | keywords))
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.close()


def believe_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a 403 be believed as soon as it repeats: in production that takes a minute."""
    monkeypatch.setattr(fetching, "PROOF", 0.05)
    monkeypatch.setattr(reflector, "PROOF", 0.05)
    monkeypatch.setattr(fetching, "_FIRST_REST", 0.02)
    monkeypatch.setattr(lookups, "_FIRST_PAUSE", 0.02)


def truth(server: KubernetesServer) -> dict[str, str]:
    """The phases of the pods with GPUs or claims that exist, by uid."""
    found = {}
    for one in server.objects("Pod"):
        asked = [container.get("resources", {}).get("limits", {}) for container in one["spec"]["containers"]]
        if any("nvidia.com/gpu" in limits for limits in asked) or one["spec"].get("resourceClaims"):
            found[one["metadata"]["uid"]] = one["status"]["phase"]
    return found


def table(snapshot: Snapshot) -> dict[str, str]:
    """The same of what is known: of pods that are not gone."""
    return {uid: pod.phase for uid, pod in snapshot.pods.items() if not pod.gone}


def until(reached: Callable[[], object]) -> None:
    """Waits for it."""
    deadline = time.monotonic() + PATIENT
    while not reached():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def agrees(cluster: Cluster, server: KubernetesServer) -> bool:
    """Whether what is known is fresh, and true."""
    snapshot = cluster.snapshot()
    return snapshot.fresh and table(snapshot) == truth(server)
