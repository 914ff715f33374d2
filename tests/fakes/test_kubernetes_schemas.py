"""What the published schemas make the tests' API server do: refuse, keep in one form, and merge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.kubernetes import BUILTIN, KubernetesServer, schemas
from tests.fakes.kubernetes.client import Client
from tests.fakes.kubernetes.patching import strategic
from tests.fakes.kubernetes.quantities import canonical

KINDS = {kind.name: kind for kind in BUILTIN}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        *((0, "0"), (1, "1"), (0.5, "500m"), ("0.1", "100m"), ("1000m", "1"), ("1500m", "1500m"), ("2.5", "2500m")),
        *(("100000", "100k"), ("1e3", "1e3"), ("12E6", "12e6"), ("-1.5", "-1500m"), ("1u", "1u"), ("0.1n", "1n")),
        *(("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("100Mi", "100Mi"), ("0.5Ki", "512"), ("1000Ki", "1000Ki")),
        *(("500M", "500M"), ("nonsense", "nonsense"), ("", "")),
    ],
)
def test_amounts_have_one_form(given: Any, kept: str) -> None:
    assert canonical(given) == kept
    assert canonical(kept) == kept


def test_every_kind_that_is_kept_has_a_schema() -> None:
    for kind in BUILTIN:
        assert schemas.name_of(kind) is not None, kind.name
        assert schemas.of(kind).field("metadata") is not None, kind.name


@pytest.mark.parametrize(
    ("kind", "value", "patch", "expected"),
    [
        (
            "Service",
            {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81}]}},
            {"spec": {"ports": [{"port": 80, "name": "b"}], "$setElementOrder/ports": [{"port": 81}, {"port": 80}]}},
            {"spec": {"ports": [{"port": 81}, {"port": 80, "name": "b"}]}},
        ),
        (
            "Pod",
            {"spec": {"volumes": [{"name": "a", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "a", "secret": {"secretName": "s"}, "$retainKeys": ["name", "secret"]}]}},
            {"spec": {"volumes": [{"name": "a", "secret": {"secretName": "s"}}]}},
        ),
        (
            "Deployment",
            {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
            {"spec": {"strategy": {"type": "Recreate", "$retainKeys": ["type"]}}},
            {"spec": {"strategy": {"type": "Recreate"}}},
        ),
        (
            "PodDisruptionBudget",
            {"spec": {"selector": {"matchLabels": {"a": "b", "c": "d"}}}},
            {"spec": {"selector": {"$patch": "replace", "matchLabels": {"a": "b"}}}},
            {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
        ),
        (
            "ClusterRole",
            {"rules": [{"verbs": ["get"]}, {"verbs": ["list"]}]},
            {"rules": [{"verbs": ["watch"]}]},
            {"rules": [{"verbs": ["watch"]}]},
        ),
        (
            "Pod",
            {"metadata": {"finalizers": ["a", "b"]}, "spec": {"containers": [{"name": "x"}, {"name": "y"}]}},
            {
                "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]},
                "spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]},
            },
            {"metadata": {"finalizers": ["b", "c"]}, "spec": {"containers": [{"name": "z"}]}},
        ),
    ],
)
def test_strategic_merges_go_by_the_schema(kind: str, value: Any, patch: Any, expected: Any) -> None:
    assert strategic(value, patch, schemas.of(KINDS[kind])) == expected


def test_what_a_merge_does_not_order_keeps_its_place() -> None:
    value = {"spec": {"containers": [{"name": name} for name in "abcd"]}}
    patch = {"spec": {"$setElementOrder/containers": [{"name": "d"}, {"name": "a"}], "containers": []}}
    changed = strategic(value, patch, schemas.of(KINDS["Pod"]))
    assert "".join(one["name"] for one in changed["spec"]["containers"]) == "bcda"


RUNS = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["runs"],
            "properties": {
                "runs": {"type": "integer"},
                "mode": {"type": "string", "enum": ["grid", "random"]},
                "where": {"x-kubernetes-int-or-string": True},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
    },
}


@pytest.fixture
def client() -> Iterator[Client]:
    with KubernetesServer() as server, Client(server) as found:
        server.install("example.com", "v1", "Sweep", "sweeps", schema=RUNS)
        server.install("example.com", "v1", "Free", "frees")
        yield found


@pytest.mark.parametrize(
    ("spec", "code", "told"),
    [
        ({"runs": 1, "mode": "grid", "where": "a", "any": {"thing": 1}}, 201, ""),
        ({"runs": 1, "where": 1}, 201, ""),
        ({"runs": 1, "rums": 2}, 400, 'strict decoding error: unknown field "spec.rums"'),
        ({"mode": "grid"}, 422, 'Sweep.example.com "s" is invalid: spec.runs: Required value'),
        ({"runs": "1"}, 422, 'spec.runs in body must be of type integer: "string"'),
        ({"runs": True}, 422, 'spec.runs in body must be of type integer: "boolean"'),
        ({"runs": 1, "mode": "sometimes"}, 422, 'Unsupported value: "sometimes": supported values: "grid", "random"'),
    ],
)
def test_a_custom_kind_with_a_schema_is_checked(client: Client, spec: dict[str, Any], code: int, told: str) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Sweep", "metadata": {"name": "s"}, "spec": spec}
    path = "/apis/example.com/v1/namespaces/ml/sweeps?fieldValidation=Strict"
    answered, content = client.json(path, "POST", body)
    assert answered == code
    assert told in content.get("message", "")


def test_a_custom_kind_without_one_may_be_anything(client: Client) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Free", "metadata": {"name": "s"}, "spec": {"x": [1, {"y": None}]}}
    code, content = client.json("/apis/example.com/v1/namespaces/ml/frees?fieldValidation=Strict", "POST", body)
    assert (code, content["spec"]) == (201, {"x": [1, {"y": None}]})


def test_unknown_fields_are_dropped_and_told_of_in_every_kind(client: Client) -> None:
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "lables": {}},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i", "env": [{"nam": "x", "name": "y"}]}]},
            },
        },
    }
    answer = client.ask("/apis/apps/v1/namespaces/ml/deployments", "POST", body)
    warned = answer.headers.get_all("Warning")
    assert b"lables" not in answer.read()
    assert [one.split(" - ")[1] for one in warned] == [
        r'"unknown field \"metadata.lables\""',
        r'"unknown field \"spec.template.spec.containers[0].env[0].nam\""',
    ]
