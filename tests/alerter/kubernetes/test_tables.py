"""What lists and events make of the table: what is gone, what stays, what is forgotten."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from msgspec import Raw

from dutycycle_alerter.kubernetes.model import Node
from dutycycle_alerter.kubernetes.nodes import NodeDecoder
from dutycycle_alerter.kubernetes.pods import PodDecoder, gpu_resources
from dutycycle_alerter.kubernetes.tables import NodeTable, PodTable
from tests.fakes.kubernetes import builders

GPUS = gpu_resources("nvidia.com/gpu")


def raw(content: Any) -> Raw:
    return Raw(json.dumps(content).encode())


def pod(uid: str, **fields: Any) -> dict[str, Any]:
    return builders.pod(fields.pop("name", f"pod-{uid}"), uid=uid, **fields)


class Pods:
    """A table, and the uids that it found."""

    def __init__(self, remember: float = 3600.0) -> None:
        self.found: list[str] = []
        self.table = PodTable(PodDecoder(GPUS), self.found.append, remember)

    def list(self, *contents: Any) -> None:
        self.table.begin()
        self.table.page([raw(one) for one in contents[:1]])
        self.table.page([raw(one) for one in contents[1:]])
        self.table.commit()

    def change(self, told: str, content: Any) -> str:
        return self.table.change(told, raw(content))

    def states(self) -> dict[str, str]:
        return {uid: "gone" if pod.gone else pod.phase for uid, pod in self.table.pods().items()}


@pytest.fixture
def pods() -> Pods:
    return Pods()


def test_what_a_complete_list_does_not_have_is_gone_and_remembered(pods: Pods) -> None:
    pods.list(pod("a"), pod("b"))
    pods.list(pod("b"), pod("c"))
    assert pods.states() == {"a": "gone", "b": "Running", "c": "Running"}
    assert pods.found == ["a", "b", "c"]
    gone = pods.table.get("a")
    assert gone is not None
    assert gone.over
    assert gone.deleted == pytest.approx(time.time(), abs=60)


def test_a_list_that_was_begun_takes_nothing_away(pods: Pods) -> None:
    pods.list(pod("a"), pod("b"))
    pods.table.begin()
    pods.table.page([raw(pod("c"))])
    assert pods.states() == {"a": "Running", "b": "Running"}
    pods.list(pod("a"), pod("b"))
    assert pods.states() == {"a": "Running", "b": "Running"}


def test_events(pods: Pods) -> None:
    pods.list(pod("a", phase="Pending"))
    pods.change("MODIFIED", pod("a"))
    pods.change("ADDED", pod("b"))
    pods.change("ADDED", pod("cpu", gpus=0))
    assert pods.states() == {"a": "Running", "b": "Running"}
    pods.change("DELETED", pod("a", deleted="2026-11-20T22:14:21Z"))
    pods.change("DELETED", pod("cpu", gpus=0))
    pods.change("DELETED", pod("a"))
    assert pods.states() == {"a": "gone", "b": "Running"}
    gone = pods.table.get("a")
    assert gone is not None
    assert gone.deleted == 1795212861.0


def test_a_name_that_is_used_again_is_another_pod(pods: Pods) -> None:
    """The second pod of a StatefulSet's name does not end the first's story, nor go on with it."""
    pods.list(pod("a", name="web-0"))
    pods.change("DELETED", pod("a", name="web-0"))
    pods.change("ADDED", pod("b", name="web-0"))
    assert pods.states() == {"a": "gone", "b": "Running"}


def test_the_version_of_an_event_is_told(pods: Pods) -> None:
    content = pod("a")
    content["metadata"]["resourceVersion"] = "17"
    assert pods.change("ADDED", content) == "17"
    content["spec"] = 5
    assert pods.change("MODIFIED", content) == "17"
    assert pods.change("MODIFIED", "nonsense") == ""
    assert pods.table.malformed == 2
    assert pods.states() == {"a": "Running"}


def test_a_malformed_pod_stays_as_it_was_known(pods: Pods) -> None:
    pods.list(pod("a"), pod("b"))
    broken = pod("a")
    broken["status"] = "nonsense"
    pods.list(broken)
    assert pods.states() == {"a": "Running", "b": "gone"}
    pods.change("DELETED", broken)
    assert pods.states() == {"a": "gone", "b": "gone"}


def test_an_object_without_a_name_may_be_any_that_is_missing(pods: Pods) -> None:
    pods.list(pod("a"), pod("b"))
    pods.list(pod("a"), {"metadata": {"name": 5}})
    assert pods.states() == {"a": "Running", "b": "Running"}
    pods.list(pod("a"))
    assert pods.states() == {"a": "Running", "b": "gone"}


def test_what_is_over_is_forgotten_once_and_for_all() -> None:
    """A completed pod that is kept for weeks is not found again with every list, nor told as gone at its end."""
    pods = Pods(remember=0.0)
    pods.list(pod("done", phase="Succeeded", started=None), pod("runs"), pod("gone"))
    pods.change("DELETED", pod("gone"))
    pods.table.forget()
    assert pods.states() == {"runs": "Running"}
    pods.list(pod("done", phase="Succeeded", started=None), pod("runs"))
    pods.change("MODIFIED", pod("done", phase="Succeeded", started=None))
    pods.change("DELETED", pod("done", phase="Succeeded", started=None))
    assert pods.states() == {"runs": "Running"}
    assert pods.found == ["done", "runs", "gone"]
    pods.list(pod("runs"))
    assert not pods.table._buried


def test_what_is_over_is_remembered_for_a_while() -> None:
    pods = Pods(remember=600.0)
    pods.list(pod("done", phase="Succeeded", started=None), pod("gone"))
    pods.list(pod("done", phase="Succeeded", started=None))
    pods.table.forget()
    assert pods.states() == {"done": "Succeeded", "gone": "gone"}


def test_what_ended_days_before_it_is_first_seen_is_not_taken() -> None:
    pods = Pods(remember=600.0)
    pods.list(pod("old", phase="Succeeded", started="2020-01-01T00:00:00Z"))
    assert pods.states() == {}


def test_another_owner_is_looked_for(pods: Pods) -> None:
    pods.list(pod("a"))
    job = builders.workload("Job", "train", uid="job")
    pods.change("MODIFIED", pod("a", owners=(builders.owner(job),)))
    pods.change("MODIFIED", pod("a", owners=(builders.owner(job),), phase="Failed"))
    assert pods.found == ["a", "a"]


def node(name: str, *, ready: str = "True", **spec: Any) -> dict[str, Any]:
    content = builders.node(name)
    content["spec"] = spec
    content["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    return content


def test_nodes() -> None:
    table = NodeTable(NodeDecoder(GPUS))
    assert table.nodes() is None
    table.begin()
    table.page([raw(node("a")), raw(node("b", ready="Unknown"))])
    table.commit()
    assert table.nodes() == {"a": Node("a", gpus=8), "b": Node("b", ready=False, gpus=8)}
    before = table.nodes()
    table.change("MODIFIED", raw(node("a")))
    assert table.nodes() is before
    table.change("MODIFIED", raw(node("a", unschedulable=True)))
    table.change("DELETED", raw(node("b")))
    table.change("ADDED", raw(node("c")))
    table.change("MODIFIED", raw({"metadata": {"name": "c"}}))
    assert table.nodes() == {"a": Node("a", schedulable=False, gpus=8), "c": Node("c", gpus=8)}
    assert table.malformed == 1
    table.begin()
    table.page([raw({"metadata": {"name": "a"}})])
    table.commit()
    assert table.nodes() == {"a": Node("a", schedulable=False, gpus=8)}


def test_a_pod_that_gets_a_node_matters_more(pods: Pods) -> None:
    """Of a thousand that wait, those that run are looked at first."""
    for node in ("", "", "gpu-0", "gpu-0"):
        content = pod("a")
        content["spec"]["nodeName"] = node
        pods.change("MODIFIED", content)
    assert pods.found == ["a", "a"]
