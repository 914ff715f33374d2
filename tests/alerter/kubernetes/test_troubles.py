"""What is said of the pods of a job that does nothing."""

from __future__ import annotations

import pytest

from dutycycle_alerter.kubernetes.model import Node, Pod, Standing
from dutycycle_alerter.kubernetes.troubles import troubles
from tests.alerter.cases import LATER
from tests.alerter.kubernetes.podcases import pod

NODES = {"node0": Node("node0", gpus=8), "node1": Node("node1", ready=False, gpus=8)}
DOWNLOADS = Standing("get-model", "", LATER - 601)
KILLED = Standing("trainer", "OOMKilled", LATER - 5)


KILLED_SO = (
    "The container trainer of pod bert-worker-0 was last killed because it took more memory than it may (OOMKilled)"
)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([pod(), pod(1)], "", id="nothing"),
        pytest.param(
            [pod(0, waiting="ImagePullBackOff"), pod(1, waiting="ContainerCreating")],
            "Kubernetes says ImagePullBackOff of pod bert-worker-0: its image cannot be pulled.",
            id="waits",
        ),
        pytest.param(
            [pod(0, ended=Standing("trainer", "Completed", LATER))],
            "The container trainer of pod bert-worker-0, for which the GPUs are, has ended (Completed), and another "
            "one keeps the pod and its GPUs: a sidecar that does not end by itself.",
            id="a sidecar runs on",
        ),
        pytest.param(
            [pod(number, phase="Pending", starting=DOWNLOADS) for number in (3, 2, 0, 1)],
            "The init container get-model of 4 pods (bert-worker-0, bert-worker-1, bert-worker-2, ...) has run for "
            "more than 10 min, and the others wait for it: something is downloaded or waited for while the GPUs are "
            "held.",
            id="downloads",
        ),
        pytest.param([pod(0, starting=Standing("get-model", "", LATER - 599))], "", id="has just begun"),
        pytest.param([pod(0, starting=Standing("get-model"))], "", id="nobody knows when it began"),
        pytest.param([pod(0, killed=KILLED, restarts=3)], f"{KILLED_SO}, 3 restarts so far.", id="memory"),
        pytest.param(
            [pod(0, phase="Failed", reason="OOMKilled", killed=KILLED)], f"{KILLED_SO}.", id="memory, to its end"
        ),
        pytest.param(
            [pod(0), pod(1, node="node1"), pod(2, node="gone")],
            "The node node1 of pod bert-worker-1 is not ready.",
            id="node",
        ),
        pytest.param([pod(1, node="node1", phase="Succeeded")], "", id="over, and its node dead"),
        pytest.param([pod(1, phase="Failed", reason="Evicted")], "Kubernetes evicted pod bert-worker-1.", id="evicted"),
    ],
)
def test_each_thing_that_is_wrong_is_one_sentence(pods: list[Pod], expected: str) -> None:
    assert "\n".join(troubles(pods, NODES, LATER)) == expected


def test_what_is_not_known_is_not_said() -> None:
    """Without nodes nobody says that one is dead."""
    assert list(troubles([pod(0, node="node1")], None, LATER)) == []


def test_names_that_anybody_writes_are_one_line() -> None:
    [found] = troubles([pod(0, node="node1", name="a\n\u202eb")], NODES, LATER)
    assert found.isprintable()
