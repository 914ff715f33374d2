"""The policy that writes down who created an object: whom it takes for people, and on which kinds; with CEL itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter.kubernetes.users import user_of
from dutycycle_alerter.settings.kubernetes import KubernetesCluster
from tests.alerter.kubernetes.test_owners import CHAINS
from tests.alerter.kubernetes.watched import until, watched
from tests.fakes.kubernetes import ALL, KubernetesServer, builders, expressions
from tests.fakes.kubernetes.client import Client
from tests.fakes.kubernetes.kubectl import Kubectl, serving
from tests.fakes.kubernetes.recorded import exchange
from tests.manifests.kubernetes.access import NOBODY_KNOWS, account, install_owners
from tests.manifests.kubernetes.rendering import INSTALL, Variant, build, parsed

ALICE = "alice@example.com"
CONTROLLER = "system:serviceaccount:kube-system:job-controller"
STAMP = "dutycycle.io/user"
PEOPLE = {
    ALICE: True,
    "bob": True,
    "oidc:ada": True,
    "kubernetes-admin": True,
    CONTROLLER: False,
    "system:serviceaccount:argo:workflow-controller": False,
    "system:kube-controller-manager": False,
    "system:node:gpu-node-a": False,
    "system:admin": False,
    "system:anonymous": False,
}
"""Who creates, and whether it is one of the people."""


def policies() -> list[dict[str, Any]]:
    objects = build(Variant("base", ("components/creator-policy",))).objects()
    return [one for one in objects if one["kind"].startswith("MutatingAdmissionPolicy")]


@pytest.fixture
def policy() -> dict[str, Any]:
    """The one that stamps objects themselves."""
    (found,) = (one for one in policies() if (one["kind"], one["metadata"]["name"]) == (POLICY, "dutycycle-user"))
    return found


POLICY = "MutatingAdmissionPolicy"


def request(user: str) -> dict[str, Any]:
    return {"operation": "CREATE", "namespace": "ml", "name": "x", "userInfo": {"username": user}}


@pytest.mark.parametrize(("user", "person"), PEOPLE.items(), ids=PEOPLE)
def test_people_are_told_from_programs(policy: dict[str, Any], user: str, person: bool) -> None:
    conditions = [one["expression"] for one in policy["spec"]["matchConditions"]]
    assert conditions
    assert all(expressions.evaluate(one, request(user), {}, None) for one in conditions) is person


def test_the_stamp_is_the_name_and_nothing_else(policy: dict[str, Any]) -> None:
    (mutation,) = policy["spec"]["mutations"]
    made = expressions.evaluate(mutation["applyConfiguration"]["expression"], request(ALICE), {}, None)
    assert made == {"metadata": {"annotations": {STAMP: ALICE}}}


def test_it_is_the_recorded_policy_in_what_it_writes(policy: dict[str, Any]) -> None:
    """What a real API server was seen to take, and to heed."""
    recorded = exchange("07-admission/map2-create").object()["spec"]
    assert policy["spec"]["mutations"] == recorded["mutations"]
    assert (policy["spec"]["failurePolicy"], policy["spec"]["reinvocationPolicy"]) == (
        recorded["failurePolicy"],
        recorded["reinvocationPolicy"],
    )


def resources(policy: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (group, name)
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
    }


def test_it_stamps_every_kind_on_which_the_alerter_looks_for_a_user(policy: dict[str, Any]) -> None:
    """Those that it may read, and so those of every chain of the documentation: on any other a name could be forged."""
    read = {(group, name) for verb, group, name in account(parsed(INSTALL.read_text()), "dutycycle-alerter").rights}
    assert resources(policy) == read - {("", "nodes")}
    known = {
        (version.rpartition("/")[0], f"{name.lower()}s")
        for chain in CHAINS.values()
        for version, _, name in (kind.rstrip("*").partition(" ") for kind in chain)
    }
    assert {one for one in known if one[0] not in NOBODY_KNOWS} == resources(policy)


def test_it_is_about_creation_and_any_version_of_an_operator(policy: dict[str, Any]) -> None:
    for rule in policy["spec"]["matchConstraints"]["resourceRules"]:
        assert rule["operations"] == ["CREATE"]
        own = all(group in ("", "apps", "batch") for group in rule["apiGroups"])
        assert rule["apiVersions"] == (["v1"] if own else ["*"])


def test_every_policy_is_bound_and_for_people_alone(policy: dict[str, Any]) -> None:
    bound = [one["spec"] for one in policies() if one["kind"] == f"{POLICY}Binding"]
    found = [one for one in policies() if one["kind"] == POLICY]
    assert bound == [{"policyName": one["metadata"]["name"]} for one in found]
    for one in found:
        for part in ("matchConditions", "failurePolicy", "reinvocationPolicy"):
            assert one["spec"][part] == policy["spec"][part]


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    """With every kind of every chain, the policy in force, and three who may do all."""
    with KubernetesServer() as found:
        install_owners(found)
        for one in policies():
            found.put(one)
        join(found)
        yield found


def join(server: KubernetesServer) -> None:
    for user, token in ((ALICE, "alice"), ("bob@example.com", "bob"), (CONTROLLER, "controller")):
        server.add_user(user, token, ALL)


def made(server: KubernetesServer, kind: str, token: str, own: str = "") -> str | None:
    """The annotation on an object of the kind that one has created, who wrote `own` on it."""
    version, _, name = kind.partition(" ")
    found = next(one for one in server.registry if (one.api_version, one.name) == (version, name))
    metadata = {"name": f"{token}-made", "annotations": {STAMP: own, "keep": "1"} if own else {}}
    selector = {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s"}
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never" if "Job" in name else "Always"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    spec: dict[str, Any] = {"template": template, **({} if version == "batch/v1" else selector)}
    if name == "Pod":
        spec = pod
    elif kind == "batch/v1 CronJob":
        spec = {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": template}}}
    if name != "StatefulSet":
        spec.pop("serviceName", None)
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    with Client(server, token) as client:
        body = {"apiVersion": version, "kind": name, "metadata": metadata, "spec": spec}
        code, answer = client.json(f"{prefix}/namespaces/ml/{found.plural}?fieldValidation=Strict", "POST", body)
    assert code == 201, answer
    annotations: dict[str, str] = answer["metadata"].get("annotations", {})
    assert not own or annotations["keep"] == "1"
    inner = answer["spec"].get("jobTemplate", answer).get("spec", {}).get("template")
    if version in ("apps/v1", "batch/v1"):
        # A program's template is as it wrote it.
        person = {"alice": ALICE, "bob": "bob@example.com"}.get(token)
        assert inner["metadata"].get("annotations", {}).get(STAMP) == person, kind
    return annotations.get(STAMP)


KINDS = sorted({kind.rstrip("*") for chain in CHAINS.values() for kind in chain})


@pytest.mark.parametrize("kind", [one for one in KINDS if not one.startswith(NOBODY_KNOWS)])
def test_at_the_server(server: KubernetesServer, kind: str) -> None:
    """Whatever a person creates has the person's name, also over another one; what a program creates has its own."""
    assert made(server, kind, "alice") == ALICE
    assert made(server, kind, "bob", own=ALICE) == "bob@example.com"
    assert made(server, kind, "controller", own=ALICE) == ALICE


def test_a_kind_that_it_does_not_name_is_left_alone(server: KubernetesServer) -> None:
    assert made(server, "example.com/v1 Sweep", "bob", own=ALICE) == ALICE


def test_without_the_binding_nothing_is_stamped(server: KubernetesServer) -> None:
    server.delete("MutatingAdmissionPolicyBinding", "", "dutycycle-user")
    assert made(server, "v1 Pod", "bob", own=ALICE) == ALICE


def test_who_created_a_job_with_kubectl_is_its_user_in_the_alerter(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, authority):
        join(server)
        kubectl = Kubectl(server, tmp_path, authority)
        manifest = tmp_path / "policy.json"
        manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": policies()}))
        kubectl.well("apply", "-f", manifest)
        manifest.write_text(json.dumps(JOB))
        kubectl.well("create", "-f", manifest, token="alice")
        job = server.get("Job", "ml", "train")
        # What the job's controller does.
        pod = builders.pod("train-0", uid="train-0", owners=(builders.owner(job),))
        server.put(pod)
        user = settings_of(tmp_path, server, authority)
        with watched(tmp_path, server, kubeconfig=user.kubeconfig) as cluster:
            assert cluster.wait_synced(30)
            until(lambda: cluster.snapshot().owners)
            snapshot = cluster.snapshot()
            assert user_of(snapshot.pods["train-0"], snapshot.owners["train-0"], user) == ALICE


JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "ml", "annotations": {STAMP: "somebody-else"}},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train:1"}]}}},
}


def settings_of(directory: Path, server: KubernetesServer, authority: Path) -> KubernetesCluster:
    path = directory / "alerter.json"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "one", "cluster": {"server": server.url, "certificate-authority": str(authority)}}],
        "users": [{"name": "me", "user": {"token": server.token}}],
        "contexts": [{"name": "here", "context": {"cluster": "one", "user": "me"}}],
        "current-context": "here",
    }
    path.write_text(json.dumps(config))
    return KubernetesCluster(kubeconfig=path)
