"""Server-side apply at the tests' API server: who has which field, what goes with it, and who is in whose way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.kubernetes import KubernetesServer, pod
from tests.fakes.kubernetes.client import Client

SERVICE = "/api/v1/namespaces/ml/services/s"


@pytest.fixture
def client() -> Iterator[Client]:
    with KubernetesServer() as server, Client(server) as found:
        server.install("example.com", "v1", "Sweep", "sweeps")
        yield found


def apply(client: Client, who: str, path: str, kind: str, *, force: bool = False, **content: Any) -> tuple[int, Any]:
    version, _, name = kind.rpartition(" ")
    body = {"apiVersion": version, "kind": name, "metadata": {}, **content}
    forced = "&force=true" if force else ""
    return client.json(f"{path}?fieldManager={who}{forced}", "PATCH", body, Content_Type="application/apply-patch+yaml")


def service(client: Client, who: str, *ports: int, force: bool = False, **spec: Any) -> tuple[int, Any]:
    told = {"ports": [{"port": port, "name": f"p{port}"} for port in ports], **spec}
    return apply(client, who, SERVICE, "v1 Service", force=force, spec=told)


def managed(answer: Any) -> dict[str, Any]:
    return {one["manager"]: one["fieldsV1"] for one in answer["metadata"]["managedFields"]}


def test_items_are_told_apart_by_their_keys(client: Client) -> None:
    """Each manager has its own; one that is no longer applied goes, and another manager's stays."""
    assert service(client, "a", 80, 81)[0] == 201
    assert service(client, "b", 82)[0] == 200
    code, answer = service(client, "a", 80)
    assert code == 200
    assert [one["port"] for one in answer["spec"]["ports"]] == [80, 82]
    assert list(managed(answer)["b"]["f:spec"]["f:ports"]) == ['k:{"port":82,"protocol":"TCP"}']


def test_what_several_apply_stays_until_the_last_lets_go(client: Client) -> None:
    service(client, "a", 80)
    service(client, "b", 80)
    assert [one["port"] for one in service(client, "a")[1]["spec"]["ports"]] == [80]
    assert "ports" not in service(client, "b", type="ClusterIP")[1]["spec"]


def test_an_atomic_field_is_had_as_a_whole(client: Client) -> None:
    service(client, "a", 80, selector={"app": "x", "tier": "y"})
    code, answer = service(client, "b", selector={"app": "x"})
    assert (code, answer["message"]) == (409, 'Apply failed with 1 conflict: conflict with "a": .spec.selector')
    code, answer = service(client, "b", selector={"app": "x"}, force=True)
    assert answer["spec"]["selector"] == {"app": "x"}
    assert "f:selector" not in managed(answer)["a"]["f:spec"]


def test_all_conflicts_are_told(client: Client) -> None:
    service(client, "a", 80, type="ClusterIP")
    client.json(f"{SERVICE}?fieldManager=c", "PATCH", {"spec": {"sessionAffinity": "None"}}, **MERGE)
    code, answer = service(client, "b", type="NodePort", sessionAffinity="ClientIP")
    assert code == 409
    assert answer["message"].splitlines() == [
        'Apply failed with 2 conflicts: conflicts with "a":',
        "- .spec.type",
        'conflicts with "c" using v1:',
        "- .spec.sessionAffinity",
    ]


MERGE = {"Content_Type": "application/merge-patch+json"}


def test_who_writes_a_field_takes_it_from_who_applied_it(client: Client) -> None:
    service(client, "a", 80, type="ClusterIP")
    _, answer = client.json(f"{SERVICE}?fieldManager=c", "PATCH", {"spec": {"type": "NodePort"}}, **MERGE)
    assert managed(answer)["c"] == {"f:spec": {"f:type": {}}}
    assert "f:type" not in managed(answer)["a"]["f:spec"]


def test_the_same_again_writes_nothing_and_a_dry_run_neither(client: Client) -> None:
    first = service(client, "a", 80)[1]
    assert service(client, "a", 80) == (200, first)
    path = f"{SERVICE}?fieldManager=a&dryRun=All"
    changed = {"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": {"type": "NodePort"}}
    code, answer = client.json(path, "PATCH", changed, Content_Type="application/apply-patch+yaml")
    assert (code, answer["spec"]["type"]) == (200, "NodePort")
    assert client.json(SERVICE) == (200, first)


def test_custom_kinds(client: Client) -> None:
    """Of which nothing is known: their lists are one field each."""
    path = "/apis/example.com/v1/namespaces/ml/sweeps/s"
    assert apply(client, "a", path, "example.com/v1 Sweep", spec={"runs": [{"name": "x"}], "a": {"b": 1}})[0] == 201
    code, answer = apply(client, "a", path, "example.com/v1 Sweep", spec={"runs": []})
    assert (code, answer["spec"]) == (200, {"runs": []})
    assert managed(answer)["a"] == {"f:spec": {"f:runs": {}}}


def test_a_status_is_not_applied_with_the_object(client: Client) -> None:
    path = "/api/v1/namespaces/ml/pods/p"
    spec = {"containers": [{"name": "main", "image": "i"}]}
    code, answer = apply(client, "a", path, "v1 Pod", spec=spec, status={"phase": "Failed"})
    assert (code, answer["status"]["phase"]) == (201, "Pending")


def test_an_object_of_another_kind_or_namespace_is_refused(client: Client) -> None:
    assert apply(client, "a", SERVICE, "v1 Pod", spec=pod("p")["spec"])[0] == 400
    assert apply(client, "a", SERVICE, "v1 Service", metadata={"namespace": "default"})[0] == 400
    assert apply(client, "a", SERVICE.replace("/ml/", "/nowhere/"), "v1 Service", spec={})[0] == 404


def test_who_manages_what_can_be_written_too(client: Client) -> None:
    """As kubectl does when it takes over what it applied by itself before."""
    service(client, "a", 80)
    change = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
    code, answer = client.json(f"{SERVICE}?fieldManager=b", "PATCH", change, Content_Type="application/json-patch+json")
    assert code == 200
    assert managed(answer) == {}
