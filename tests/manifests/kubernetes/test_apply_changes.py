"""Manifests that are changed after they were applied: kubectl shows what differs, and sends that and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.kubernetes.kubectl import Done, Kubectl
from tests.manifests.kubernetes.applied import called, kept
from tests.manifests.kubernetes.rendering import INSTALL, MANIFESTS


def test_what_differs_is_shown(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.well("apply", "-f", INSTALL)
    assert kubectl.well("diff", "-f", INSTALL).out == ""
    changed = tmp_path / "changed.yaml"
    changed.write_text(INSTALL.read_text().replace("replicas: 1", "replicas: 2"))
    done = kubectl("diff", "-f", changed)
    assert done.code == 1
    assert "-  replicas: 1\n+  replicas: 2\n" in done.out
    assert kubectl.server.get("Deployment", "dutycycle", "dutycycle-alerter")["spec"]["replicas"] == 1


def test_a_dry_run_at_the_server_checks_and_keeps_nothing(kubectl: Kubectl) -> None:
    kubectl.well("apply", "-f", INSTALL)
    revision = kubectl.server.revision
    done = kubectl.well("apply", "--dry-run=server", "-f", INSTALL)
    assert all(line.endswith("unchanged (server dry run)") for line in done.lines)
    spoiled = INSTALL.read_text().replace("image: dutycycle-alerter:", "image: elsewhere/dutycycle-alerter:")
    done = piped(kubectl, spoiled, "--dry-run=server")
    assert [line for line in done.lines if "unchanged" not in line] == [
        "deployment.apps/dutycycle-alerter configured (server dry run)"
    ]
    assert kubectl.server.revision == revision


def piped(kubectl: Kubectl, text: str, *more: str) -> Done:
    path = kubectl.home / "changed.yaml"
    path.write_text(text)
    return kubectl.well("apply", "-f", path, *more)


@pytest.mark.parametrize(
    ("before", "after", "what", "where", "change"),
    [
        (
            "image: dutycycle-exporter:",
            "image: registry.example/dutycycle-exporter:",
            "daemonset.apps/dutycycle-exporter",
            "daemonsets/dutycycle-exporter",
            "image",
        ),
        (
            "replicas: 1",
            "replicas: 0",
            "deployment.apps/dutycycle-alerter",
            "deployments/dutycycle-alerter",
            "replicas",
        ),
    ],
)
def test_a_change_is_one_patch(kubectl: Kubectl, before: str, after: str, what: str, where: str, change: str) -> None:
    """Of the object that is changed, and of what is changed in it."""
    kubectl.well("apply", "-f", INSTALL)
    text = INSTALL.read_text()
    assert text.count(before) == 1
    old = {called(one): kept(kubectl.server, one) for one in yaml.safe_load_all(text)}
    done = piped(kubectl, text.replace(before, after))
    assert [line for line in done.lines if not line.endswith(" unchanged")] == [f"{what} configured"]
    (write,) = done.writes
    assert (write.method, write.path.endswith(where)) == ("PATCH", True)
    now = {called(one): kept(kubectl.server, one) for one in yaml.safe_load_all(text)}
    assert [name for name in now if now[name] != old[name]] == [what]
    assert now[what]["metadata"]["generation"] == old[what]["metadata"]["generation"] + 1
    assert differing(old[what]["spec"], now[what]["spec"]) == {change}


def differing(one: Any, other: Any, name: str = "") -> set[str]:
    """The names of the innermost fields that are not the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {found for key in {*one, *other} for found in differing(one.get(key), other.get(key), key)}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return {found for a, b in zip(one, other, strict=True) for found in differing(a, b, name)}
    return set() if one == other else {name}


def test_a_changed_configuration_is_a_new_config_map_and_a_new_pod(kubectl: Kubectl, tmp_path: Path) -> None:
    """Its name is a digest of what is in it, so that the deployment changes with it."""
    kubectl.well("apply", "-f", INSTALL)
    site = tmp_path / "site"
    site.mkdir()
    (site / "config.yaml").write_text((MANIFESTS / "base/alerter/config.yaml").read_text() + "# changed\n")
    # Kustomize takes no absolute paths.
    (site / "kustomization.yaml").write_text(json.dumps(SITE | {"resources": [relative(MANIFESTS / "base", site)]}))
    done = kubectl.well("apply", "-k", site)
    changed = [line for line in done.lines if not line.endswith(" unchanged")]
    assert [line.partition(" ")[2] for line in changed] == ["created", "configured"]
    (created,) = (line.partition(" ")[0].rpartition("/")[2] for line in changed if line.endswith("created"))
    volumes = kubectl.server.get("Deployment", "dutycycle", "dutycycle-alerter")["spec"]["template"]["spec"]["volumes"]
    assert created in [one["configMap"]["name"] for one in volumes if "configMap" in one]
    assert [one.method for one in done.writes] == ["POST", "PATCH"]


SITE = {
    "apiVersion": "kustomize.config.k8s.io/v1beta1",
    "kind": "Kustomization",
    "namespace": "dutycycle",
    "configMapGenerator": [{"name": "dutycycle-alerter", "behavior": "replace", "files": ["config.yaml"]}],
}


def relative(path: Path, directory: Path) -> str:
    return "/".join([".."] * len(directory.resolve().parts[1:]) + list(path.resolve().parts[1:]))
