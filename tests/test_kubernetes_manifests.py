"""What of the Kubernetes manifests is made, and by which kubectl."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from dutycycle_alerter import __version__
from tests.required import lacking
from tools import kubernetes_manifests


@pytest.fixture
def rendering() -> None:
    try:
        kubernetes_manifests.kubectl()
    except kubernetes_manifests.MissingError as error:
        lacking(str(error))


def put_kubectl(directory: Path, minor: str) -> Path:
    """A program that says it is this version, and does nothing else."""
    directory.mkdir()
    said = json.dumps({"clientVersion": {"major": "1", "minor": minor}})
    (directory / "kubectl").write_text(f"#!/bin/sh\necho '{said}'\n")
    (directory / "kubectl").chmod(0o755)
    return directory / "kubectl"


@pytest.mark.usefixtures("rendering")
def test_what_is_installed_has_the_projects_version_whatever_was_made_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(kubernetes_manifests.MANIFESTS / "base", tmp_path / "base")
    stale = tmp_path / "base/version/kustomization.yaml"
    stale.write_text(stale.read_text().replace(__version__, "0.0.1-old"))
    monkeypatch.setattr(kubernetes_manifests, "MANIFESTS", tmp_path)
    made = kubernetes_manifests.install().decode()
    assert "0.0.1-old" not in made
    objects = list(yaml.safe_load_all(made))
    templates = [one["spec"]["template"] for one in objects if one["kind"] in ("DaemonSet", "Deployment")]
    assert [template["metadata"]["labels"]["app.kubernetes.io/version"] for template in templates] == [__version__] * 2
    assert {container["image"] for template in templates for container in template["spec"]["containers"]} == {
        f"dutycycle-exporter:{__version__}",
        f"dutycycle-alerter:{__version__}",
    }


def test_the_kubectl_of_the_environment_goes_before_the_one_in_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = put_kubectl(tmp_path / "venv", "37"), put_kubectl(tmp_path / "path", "36")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/python"))
    monkeypatch.setenv("PATH", str(other.parent), prepend=":")
    assert kubernetes_manifests.kubectl() == str(own)
    own.unlink()
    assert kubernetes_manifests.kubectl() == str(other)


@pytest.mark.parametrize(("minor", "enough"), [("26", False), ("27", True), ("27+", True)])
def test_a_kubectl_with_an_old_kustomize_is_not_taken(
    minor: str, enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = put_kubectl(tmp_path / "venv", minor)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(shutil, "which", lambda program: None)
    if enough:
        assert kubernetes_manifests.kubectl() == str(found)
        return
    with pytest.raises(kubernetes_manifests.MissingError, match=f"kubectl 1.27 or newer .*{found} is 1.26"):
        kubernetes_manifests.kubectl()
