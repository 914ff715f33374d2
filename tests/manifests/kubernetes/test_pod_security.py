"""What the Pod Security Standards say of the pods, asked of the tests' API server with kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.kubernetes.kubectl import Kubectl, serving
from tests.fakes.kubernetes.podsecurity import violations
from tests.manifests.kubernetes.rendering import INSTALL, parsed

LABEL = "pod-security.kubernetes.io/"
OF_EXPORTER = (
    'Warning: would violate PodSecurity "restricted:latest": restricted volume types (volumes "pod-resources", '
    '"container-logs", "proc", "cgroup" use restricted volume type "hostPath"), runAsNonRoot != true (pod or container '
    '"exporter" must set '
    "securityContext.runAsNonRoot=true), runAsUser=0 (pod must not set runAsUser=0)"
)
"""The paths of the node and the uid that may read them; everything else is as restricted as it can be."""


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    with serving(tmp_path) as (server, authority):
        yield Kubectl(server, tmp_path, authority)


def template(kind: str) -> dict[str, Any]:
    (found,) = (one for one in parsed(INSTALL.read_text()) if one["kind"] == kind)
    made: dict[str, Any] = found["spec"]["template"]
    return made


def labelled(level: str) -> str:
    """install.yaml in a namespace of that level."""
    objects = parsed(INSTALL.read_text())
    (namespace,) = (one for one in objects if one["kind"] == "Namespace")
    assert namespace["metadata"]["labels"][f"{LABEL}enforce"] == "privileged"
    kept = {name: value for name, value in namespace["metadata"]["labels"].items() if not name.startswith(LABEL)}
    namespace["metadata"]["labels"] = kept | {f"{LABEL}{mode}": level for mode in ("enforce", "warn")}
    return yaml.safe_dump_all(objects)


def pod(kubectl: Kubectl, kind: str) -> str:
    """What becomes of the pod that the controller of that kind creates: an error, or nothing."""
    made = template(kind)
    content = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "made", "namespace": "dutycycle"}}
    content["metadata"] |= {"labels": made["metadata"]["labels"]}
    path = kubectl.home / "pod.yaml"
    path.write_text(yaml.safe_dump({**content, "spec": made["spec"]}))
    return kubectl("create", "-f", path).err


def test_in_its_namespace_nothing_is_warned_of_and_the_pods_are_let_in(kubectl: Kubectl) -> None:
    assert kubectl.well("apply", "-f", INSTALL).err == ""
    assert pod(kubectl, "DaemonSet") == ""


def test_in_a_restricted_namespace_the_exporter_is_warned_of_and_refused(kubectl: Kubectl) -> None:
    """So the label is needed. The alerter's pod needs none."""
    path = kubectl.home / "labelled.yaml"
    path.write_text(labelled("restricted"))
    done = kubectl.well("apply", "-f", path)
    assert done.err.splitlines() == [OF_EXPORTER]
    assert 'forbidden: violates PodSecurity "restricted:latest"' in pod(kubectl, "DaemonSet")
    assert kubectl.server.objects("Pod") == []
    assert pod(kubectl, "Deployment") == ""
    assert len(kubectl.server.objects("Pod")) == 1


def test_in_a_baseline_namespace_only_the_paths_of_the_node_are_too_much(kubectl: Kubectl) -> None:
    path = kubectl.home / "labelled.yaml"
    path.write_text(labelled("baseline"))
    told = 'hostPath volumes (volumes "pod-resources", "container-logs", "proc", "cgroup")'
    done = kubectl.well("apply", "-f", path)
    assert done.err.splitlines() == [f'Warning: would violate PodSecurity "baseline:latest": {told}']


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, ""),
        ({"hostNetwork": True}, "host namespaces (hostNetwork=true)"),
        ({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}, 'volume "a" uses restricted volume type "hostPath"'),
        ({"securityContext": {}}, "seccompProfile (pod or container"),
        ({"containers": [{"name": "alerter", "image": "i"}]}, "allowPrivilegeEscalation != false"),
    ],
)
def test_what_would_make_the_alerter_less_than_restricted(change: dict[str, Any], told: str) -> None:
    found = violations(template("Deployment")["spec"] | change, "restricted")
    assert told in found
    assert bool(found) == bool(told)
