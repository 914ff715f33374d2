"""The checks and a real API server are of one mind: about what it was recorded to refuse, and what it took."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.fakes.kubernetes.recorded import exchange, names

from . import schemas
from .checks import CHECKS, identity, references, roles, selectors, services, volumes
from .checks.cluster import Cluster

_CREATED = {
    "pods": "Pod",
    "deployments": "Deployment",
    "daemonsets": "DaemonSet",
    "jobs": "Job",
    "statefulsets": "StatefulSet",
    "poddisruptionbudgets": "PodDisruptionBudget",
    "clusterroles": "ClusterRole",
    "clusterrolebindings": "ClusterRoleBinding",
    "rolebindings": "RoleBinding",
    "serviceaccounts": "ServiceAccount",
    "configmaps": "ConfigMap",
    "mutatingadmissionpolicies": "MutatingAdmissionPolicy",
    "mutatingadmissionpolicybindings": "MutatingAdmissionPolicyBinding",
}
_VERSION = "1.36"
"""Of the server that was recorded."""
ALONE = [
    check
    for check in CHECKS
    # What an object refers to was there before, or came later, or never: a server takes it all the same.
    if check.__module__ not in {one.__name__ for one in (references, roles, selectors, services)}
    and check is not volumes.unused
]
REFUSED = {
    # What it says, and what of that is said here.
    "04-errors/400-bad-quantity": ("quantities must match", "'two' is no quantity"),
    "04-errors/400-bad-type": (
        "cannot unmarshal string into Go struct field PodSpec.spec.containers",
        "is not of type 'array'",
    ),
    "04-errors/422-bad-label": ("metadata.labels: Invalid value", "'c d' is not a label's value"),
    "04-errors/422-bad-name": ("a lowercase RFC 1123 subdomain", "metadata.name cannot be 'Bad_Name'"),
    "04-errors/422-deployment-selector": (
        "`selector` does not match template `labels`",
        "spec.selector does not match",
    ),
    "04-errors/422-gpu-fraction": ("must be an integer", "500m is not a whole number"),
    "04-errors/422-gpu-request-lt-limit": ("must be equal to nvidia.com/gpu limit of 2", "1 is not its limit, 2"),
    "04-errors/422-gpu-request-ne-limit": ("must be equal to nvidia.com/gpu limit of 1", "2 is not its limit, 1"),
    "04-errors/422-gpu-request-without-limit": ("Limit must be set for non overcommitable", "a device needs a limit"),
    "04-errors/422-no-containers": ("spec.containers: Required value", "'containers' is a required property"),
    "04-errors/422-no-name": ("name or generateName is required", "metadata.name is missing"),
    "05-writes/strict-400-unknown-field": ('unknown field \\"spec.bogusField\\"', "'bogusField' was unexpected"),
}
IN_ONE = (
    "metadata.name cannot be 'A_b'",
    "spec.selector does not match its own template's labels",
    "99999 is not between 1 and 65535",
    "2 is not its limit, 1",
)
"""All that the recorded Deployment has wrong with it: the server names the four of them, too."""
ELSEWHERE = {
    # Of requests, of what was there before, and of what an admission policy forbids: nothing in the object is wrong.
    "04-errors/400-empty-body",
    "04-errors/400-namespace-mismatch",
    "04-errors/400-not-json",
    "04-errors/400-wrong-kind",
    "05-writes/strict-400-duplicate-field",
    "07-admission/map-create-v1beta1",
    # CEL, which the test server of ours takes apart.
    "07-admission/map-bad-expression-422",
}


def _created() -> list[tuple[str, int, dict[str, Any]]]:
    """Every recorded creation of a kind that we could have: its name, the answer's code, and the object."""
    found = []
    for directory in ("02-pods", "04-errors", "05-writes", "07-admission"):
        for name in names(directory):
            one = exchange(name)
            path = one.url.partition("?")[0].split("/")
            if one.method != "POST" or one.body is None or path[-1] not in _CREATED:
                continue
            try:
                content = yaml.safe_load(one.body)
            except yaml.YAMLError:
                continue
            if isinstance(content, dict):
                within = path[path.index("namespaces") + 1] if "namespaces" in path else None
                if within and isinstance(content.get("metadata"), dict):
                    content["metadata"].setdefault("namespace", within)
                found.append((name, one.code, content))
    return found


def _said(content: dict[str, Any]) -> list[str]:
    """By the schemas, and by the checks that look at one object."""
    if not content.get("metadata", {}).get("name"):
        return list(identity.said(Cluster((content,))))
    # The checks rely on what schemas say.
    if refused := schemas.objections(content, _VERSION):
        return refused
    alone = Cluster((content,), frozenset({("Namespace", content["metadata"].get("namespace", ""))}))
    return [said for check in ALONE for said in check(alone)]


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_real_server_refused_is_found(name: str) -> None:
    one = exchange(name)
    words, ours = REFUSED[name]
    assert one.code in (400, 422)
    assert words in one.answer.decode()
    content = json.loads(one.body or b"")
    content["metadata"].setdefault("namespace", "ml")
    found = _said(content)
    assert [said for said in found if ours in said], found


def test_all_that_is_wrong_with_one_object_is_found() -> None:
    one = exchange("04-errors/422-deployment-selector")
    assert len(one.object()["details"]["causes"]) == len(IN_ONE)
    content = json.loads(one.body or b"")
    content["metadata"]["namespace"] = "ml"
    found = _said(content)
    assert [sum(words in said for said in found) for words in IN_ONE] == [1, 1, 1, 1], found
    assert len(found) == len(IN_ONE)


def test_what_a_real_server_took_is_not_found() -> None:
    """Else the checks would ask for more than is true."""
    taken = [(name, content) for name, code, content in _created() if code == 201 and "unknown-field" not in name]
    assert len(taken) > 15
    assert {name: _said(content) for name, content in taken} == {name: [] for name, _ in taken}


def test_every_refusal_was_looked_at() -> None:
    """A new recording is either found by the checks, or said to be about something else."""
    refused = {name for name, code, _ in _created() if code in (400, 422)}
    assert refused - ELSEWHERE <= set(REFUSED)
