"""Server-side apply answers what the recorded API server answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.kubernetes import KubernetesServer
from tests.fakes.kubernetes import recorded as real
from tests.fakes.kubernetes.recorded import differences, exchange, keep, replay

REPLAYED = [
    f"05-writes/ssa-{stem}"
    for stem in (
        *("1-apply-annotation", "2-conflict-409", "3-force", "4-no-fieldmanager", "5-create-201", "6-same-200"),
        "7-managedfields-in-body",
    )
]
"""In turn, from the pod that there was."""


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer(namespaces=()) as found:
        real.introduce(found)
        keep(found, "03-watch/watch-table")
        yield found


def test_server_side_apply(server: KubernetesServer) -> None:
    """Who manages which field is compared too; times are each server's own."""
    keep(server, "02-pods/pod-get-bare")
    for name in REPLAYED:
        one = exchange(name)
        answer = replay(server, one)
        assert differences(one, answer) == []
        if one.code < 300:
            applied = [
                (each["manager"], each["fieldsV1"])
                for content in (real.object_of(answer.body), one.object())
                for each in content["metadata"]["managedFields"]
                if each["operation"] == "Apply"
            ]
            assert applied[: len(applied) // 2] == applied[len(applied) // 2 :]
            assert len(applied) == 2
