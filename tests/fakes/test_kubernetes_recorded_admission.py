"""What the recorded API server let in, changed and refused: admission policies, and the Pod Security Standards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.kubernetes import KubernetesServer
from tests.fakes.kubernetes import recorded as real
from tests.fakes.kubernetes.recorded import differences, exchange, keep, replay

POLICIES = [
    *("map-bad-expression-422", "map-create-v1", "map-binding-create-v1", "map-pod-alice", "map-pod-bob-spoofs"),
    *("map-pod-nogpu", "map-deployment", "map-alice-edits-annotation", "map-delete"),
    *("map2-create", "map2-binding", "map2-pod-alice", "map2-restart-dep"),
    *("vap-create", "vap-binding", "vap-denied"),
]
"""In turn, each with what those before it have left."""
SCHEDULED = {"map-alice-edits-annotation": "07-admission/map-pod-get"}
"""What happened meanwhile to what is written: the scheduler and a kubelet are not here."""
SECURITY = [
    *("psa-baseline-hostpath-403", "psa-baseline-hostpid-403", "psa-restricted-daemonset-warning"),
    *("psa-restricted-hostpid-hostpath-403", "psa-restricted-ok-201", "psa-restricted-plain-403"),
]
REPLAYED = [f"07-admission/{stem}" for stem in (*POLICIES, *SECURITY)]


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer(namespaces=()) as found:
        real.introduce(found)
        keep(found, "03-watch/watch-table")
        yield found


def test_policies(server: KubernetesServer) -> None:
    """What is created is stamped, or refused; what a person writes afterwards stays."""
    for stem in POLICIES:
        one = exchange(f"07-admission/{stem}")
        keep(server, *filter(None, [SCHEDULED.get(stem)]))
        answer = replay(server, one)
        assert differences(one, answer) == []
        if "-pod-" in stem or "edits" in stem:
            theirs = one.object()["metadata"].get("annotations")
            assert real.object_of(answer.body)["metadata"].get("annotations") == theirs
        if stem == "map-create-v1":
            keep(server, one.name)


@pytest.mark.parametrize("name", SECURITY)
def test_pod_security(server: KubernetesServer, name: str) -> None:
    one = exchange(f"07-admission/{name}")
    assert differences(one, replay(server, one)) == []
