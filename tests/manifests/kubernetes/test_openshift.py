"""On OpenShift each pod is admitted by the constraints that it names, and these allow no more than it needs."""

from __future__ import annotations

from typing import Any

import pytest

from .checks.cluster import Cluster, Pod
from .openshift import RESTRICTED, objections
from .rendering import Object, Variant, named
from .variants import objects

REQUIRED = "openshift.io/required-scc"
OPENSHIFT = Variant("overlays/openshift")


def _constraints(found: list[Object], pod: Pod) -> Object:
    wanted = pod.metadata["annotations"][REQUIRED]
    return RESTRICTED if wanted == "restricted-v2" else named(found, "SecurityContextConstraints", wanted)


@pytest.mark.parametrize(
    "components",
    [(), ("components/pod-names",), ("components/slurm",), ("components/device-mounts",), ("components/nri",)],
    ids=lambda components: " + ".join(components) or "alone",
)
def test_every_pod_is_admitted_by_the_constraints_that_it_names(components: tuple[str, ...]) -> None:
    found = objects(Variant(OPENSHIFT.kustomization, components))
    pods = Cluster(tuple(found)).pods
    assert len(pods) == 2
    assert {
        pod.labels["app.kubernetes.io/component"]: objections(_constraints(found, pod), pod.spec) for pod in pods
    } == {
        "exporter": [],
        "alerter": [],
    }


@pytest.mark.parametrize(
    ("component", "said"),
    [
        ("components/host-pid", ["hostPID"]),
        ("components/mig", ["capabilities"]),
        ("components/profiling-admin", ["capabilities"]),
    ],
)
def test_what_the_constraints_say_is_to_be_changed_is(component: str, said: list[str]) -> None:
    """Their comments name these components, and which of their fields each needs."""
    found = objects(Variant(OPENSHIFT.kustomization, (component,)))
    (pod,) = (one for one in Cluster(tuple(found)).pods if one.owner["kind"] == "DaemonSet")
    assert objections(_constraints(found, pod), pod.spec) == said


def test_the_exporter_may_use_its_constraints_and_nobody_else() -> None:
    found = objects(OPENSHIFT)
    role = named(found, "Role", "dutycycle-exporter-scc")
    (rule,) = role["rules"]
    assert rule == {
        "apiGroups": ["security.openshift.io"],
        "resources": ["securitycontextconstraints"],
        "resourceNames": ["dutycycle-exporter"],
        "verbs": ["use"],
    }
    (subject,) = named(found, "RoleBinding", "dutycycle-exporter-scc")["subjects"]
    assert subject["name"] == "dutycycle-exporter"
    constraints = named(found, "SecurityContextConstraints", "dutycycle-exporter")
    assert (constraints["users"], constraints["groups"]) == ([], [])


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("allowHostDirVolumePlugin", False, "allowHostDirVolumePlugin"),
        ("volumes", ["projected"], "volumes: hostPath"),
        ("runAsUser", {"type": "MustRunAsRange"}, "runAsUser"),
        ("runAsUser", {"type": "MustRunAs", "uid": 1000}, "runAsUser"),
        ("seccompProfiles", [], "seccompProfile"),
        ("seLinuxContext", {"type": "MustRunAs"}, "seLinuxOptions"),
    ],
)
def test_constraints_without_what_the_exporter_needs_refuse_it(field: str, value: Any, said: str) -> None:
    found = objects(OPENSHIFT)
    (pod,) = (one for one in Cluster(tuple(found)).pods if one.owner["kind"] == "DaemonSet")
    constraints = named(found, "SecurityContextConstraints", "dutycycle-exporter") | {field: value}
    assert said in objections(constraints, pod.spec)


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_the_bases_pods_need_the_overlay(kind: str) -> None:
    """Its fixed user is none of the namespace's: that is what the overlay takes away."""
    (pod,) = (one for one in Cluster(tuple(objects(Variant("base")))).pods if one.owner["kind"] == kind)
    assert "runAsUser" in objections(RESTRICTED, pod.spec)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"privileged": True}, "privileged"),
        ({"allowPrivilegeEscalation": True}, "allowPrivilegeEscalation"),
        ({"readOnlyRootFilesystem": False}, "readOnlyRootFilesystem"),
        ({"capabilities": {"add": ["CHOWN"]}}, "capabilities"),
        ({"capabilities": {"add": ["ALL"]}}, "requiredDropCapabilities"),
        ({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile"),
    ],
)
def test_the_exporters_constraints_allow_no_more(own: dict[str, Any], said: str) -> None:
    found = objects(OPENSHIFT)
    (pod,) = (one for one in Cluster(tuple(found)).pods if one.owner["kind"] == "DaemonSet")
    pod.spec["containers"][0]["securityContext"] |= own
    assert said in objections(named(found, "SecurityContextConstraints", "dutycycle-exporter"), pod.spec)
