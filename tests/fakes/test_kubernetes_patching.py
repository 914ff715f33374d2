"""The patch formats of the tests' API server, by themselves and over HTTP."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.kubernetes import BUILTIN, KubernetesServer, container, pod, schemas, workload
from tests.fakes.kubernetes.client import Client
from tests.fakes.kubernetes.patching import by_operations, merge, strategic
from tests.fakes.kubernetes.status import Refusal

POD_KIND = next(kind for kind in BUILTIN if kind.name == "Pod")
CONTAINERS = [{"name": "a", "image": "x", "env": [{"name": "E", "value": "1"}]}, {"name": "b", "image": "y"}]


@pytest.mark.parametrize(
    ("value", "patch", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": None, "c": 3}, {"b": 2, "c": 3}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": None}}, {"a": {"b": 1}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"a": 1}, [1], [1]),
    ],
)
def test_merge(value: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy(value)
    assert merge(value, patch) == expected
    assert value == before


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ([{"name": "b", "image": "z"}], [CONTAINERS[0], {"name": "b", "image": "z"}]),
        ([{"name": "c", "image": "z"}], [*CONTAINERS, {"name": "c", "image": "z"}]),
        ([{"name": "a", "$patch": "delete"}], [CONTAINERS[1]]),
        ([{"name": "b", "$patch": "replace", "image": "z"}], [CONTAINERS[0], {"name": "b", "image": "z"}]),
        (
            [{"name": "a", "env": [{"name": "F", "value": "2"}]}],
            [{**CONTAINERS[0], "env": [{"name": "E", "value": "1"}, {"name": "F", "value": "2"}]}, CONTAINERS[1]],
        ),
        ([{"name": "a", "image": None}], [{"name": "a", "env": CONTAINERS[0]["env"]}, CONTAINERS[1]]),
    ],
)
def test_strategic_merge_of_named_things(patch: Any, expected: Any) -> None:
    before = {"spec": {"containers": copy.deepcopy(CONTAINERS), "nodeName": "n"}}
    changed = strategic(before, {"spec": {"containers": patch}}, schemas.of(POD_KIND))
    assert changed == {"spec": {"containers": expected, "nodeName": "n"}}
    assert before["spec"]["containers"] == CONTAINERS


def test_strategic_merge_of_plain_lists() -> None:
    value = {"metadata": {"finalizers": ["a", "b"]}, "spec": {"args": ["x"]}}
    patch = {
        "metadata": {"finalizers": ["b", "c"], "$deleteFromPrimitiveList/finalizers": ["a"]},
        "spec": {"args": ["y"]},
    }
    assert strategic(value, patch, schemas.of(POD_KIND)) == {
        "metadata": {"finalizers": ["b", "c"]},
        "spec": {"args": ["y"]},
    }


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/b", "value": 1}], {"a": [1, 2], "b": 1}),
        ([{"op": "add", "path": "/a/-", "value": 3}], {"a": [1, 2, 3]}),
        ([{"op": "add", "path": "/a/0", "value": 0}], {"a": [0, 1, 2]}),
        ([{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ([{"op": "replace", "path": "/a", "value": {}}], {"a": {}}),
        ([{"op": "move", "from": "/a", "path": "/b~1c"}], {"b/c": [1, 2]}),
        ([{"op": "copy", "from": "/a", "path": "/b"}, {"op": "remove", "path": "/a/1"}], {"a": [1], "b": [1, 2]}),
        ([{"op": "test", "path": "/a/1", "value": 2}], {"a": [1, 2]}),
    ],
)
def test_operations(operations: Any, expected: Any) -> None:
    before = {"a": [1, 2]}
    assert by_operations(before, operations) == expected
    assert before == {"a": [1, 2]}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 1},
        {"op": "remove", "path": "/b"},
        {"op": "replace", "path": "/b", "value": 1},
        {"op": "add", "path": "/b/c", "value": 1},
        {"op": "remove", "path": "/a/9"},
        {"op": "explode", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"path": "/a"},
        "add",
    ],
)
def test_operations_that_cannot_be_done(operation: Any) -> None:
    with pytest.raises(Refusal) as refused:
        by_operations({"a": [1]}, [operation])
    assert refused.value.code == 422


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as running:
        yield running


POD = "/api/v1/namespaces/ml/pods/a"
TYPES = {"merge": "merge-patch+json", "strategic": "strategic-merge-patch+json", "json": "json-patch+json"}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("merge", {"metadata": {"labels": {"x": "y"}}}),
        ("strategic", {"metadata": {"labels": {"x": "y"}}}),
        ("json", [{"op": "add", "path": "/metadata/labels/x", "value": "y"}]),
    ],
)
def test_over_http(server: KubernetesServer, kind: str, patch: Any) -> None:
    server.put(pod("a", labels={"app": "a"}, containers=(container("main", 1), container("side"))))
    with Client(server) as client:
        code, found = client.json(POD, "PATCH", patch, Content_Type=f"application/{TYPES[kind]}")
        again, same = client.json(POD, "PATCH", patch, Content_Type=f"application/{TYPES[kind]}")
    assert (code, found["metadata"]["labels"]) == (200, {"app": "a", "x": "y"})
    assert (again, same) == (200, found)
    assert server.get("Pod", "ml", "a") == found


def test_each_part_of_an_object_has_its_path(server: KubernetesServer) -> None:
    """A status is not written with the rest, the rest not with the status; a specification that changes counts."""
    server.install("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
    server.put(workload("PyTorchJob", "bert", api_version="kubeflow.org/v1", spec={"n": 1}, status={"phase": "A"}))
    path = "/apis/kubeflow.org/v1/namespaces/ml/pytorchjobs/bert"
    both = {"spec": {"n": 2}, "status": {"phase": "B"}}
    with Client(server) as client:
        _, first = client.json(path, "PATCH", both, Content_Type="application/merge-patch+json")
        assert (first["spec"], first["status"], first["metadata"]["generation"]) == ({"n": 2}, {"phase": "A"}, 2)
        both["spec"]["n"] = 3
        _, second = client.json(f"{path}/status", "PATCH", both, Content_Type="application/merge-patch+json")
        assert (second["spec"], second["status"], second["metadata"]["generation"]) == ({"n": 2}, {"phase": "B"}, 2)
        code, _ = client.json(path, "PATCH", both, Content_Type="application/strategic-merge-patch+json")
        assert code == 415


def test_an_object_with_a_finalizer_goes_when_that_is_taken_away(server: KubernetesServer) -> None:
    server.install("ray.io", "v1", "RayCluster", "rayclusters")
    cluster = workload("RayCluster", "r", api_version="ray.io/v1")
    cluster["metadata"]["finalizers"] = ["ray.io/x"]
    server.put(cluster)
    path = "/apis/ray.io/v1/namespaces/ml/rayclusters/r"
    with Client(server) as client:
        _, found = client.json(path, "DELETE")
        assert "deletionTimestamp" in found["metadata"]
        assert client.json(path)[0] == 200
        patch = {"metadata": {"finalizers": None}}
        assert client.json(path, "PATCH", patch, Content_Type="application/merge-patch+json")[0] == 200
        assert client.json(path)[0] == 404


def test_what_is_put_over_http(server: KubernetesServer) -> None:
    server.put(pod("a"))
    with Client(server) as client:
        _, found = client.json(POD)
        found["metadata"]["labels"] = {"x": "y"}
        code, stored = client.json(POD, "PUT", found)
        assert (code, stored["metadata"]["labels"]) == (200, {"x": "y"})
        assert client.json(POD, "PUT", found)[0] == 409
        assert client.json(f"{POD[:-1]}b", "PUT", {**found, "metadata": {"name": "b"}})[0] == 404


def test_deleting_all_that_is_selected(server: KubernetesServer) -> None:
    for name, node in (("a", None), ("b", None), ("c", "gpu-node-a")):
        server.put(pod(name, node=node, labels={"app": "x" if name != "b" else "y"}))
    with Client(server) as client:
        _, found = client.json("/api/v1/namespaces/ml/pods?labelSelector=app%3Dx", "DELETE")
    assert [one["metadata"]["name"] for one in found["items"]] == ["a", "c"]
    left = {one["metadata"]["name"]: "deletionTimestamp" in one["metadata"] for one in server.objects("Pod")}
    assert left == {"b": False, "c": True}
