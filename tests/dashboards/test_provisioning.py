"""The files by which Grafana and its sidecar take the dashboards: the same dashboards, in forms that are taken."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dutycycle_dashboards.render import dashboards
from tools.grafana_files import generators

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "manifests" / "grafana"
MODELS = dashboards()

ANNOTATION_LIMIT = 256 * 1024
"""Bytes of all annotations of an object together, of which `kubectl apply` fills one with the whole object."""


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


@pytest.mark.parametrize("uid", MODELS)
def test_a_config_map_holds_the_dashboard(uid: str) -> None:
    found = read(MANIFESTS / f"{uid}.yaml")
    assert (found["apiVersion"], found["kind"], found["metadata"]["name"]) == ("v1", "ConfigMap", uid)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", uid)
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"]["grafana_folder"] == "Dutycycle"
    assert list(found["data"]) == [f"{uid}.json"]
    assert json.loads(found["data"][f"{uid}.json"]) == MODELS[uid]


@pytest.mark.parametrize("uid", MODELS)
def test_kubectl_can_apply_it(uid: str) -> None:
    """What it keeps in the annotation is the object as JSON, in which the dashboard's JSON is a string."""
    kept = json.dumps(read(MANIFESTS / f"{uid}.yaml"), separators=(",", ":"))
    assert len(kept.encode()) < ANNOTATION_LIMIT * 0.95


def test_the_kustomization_has_them_all() -> None:
    found = read(MANIFESTS / "kustomization.yaml")
    assert found["resources"] == [f"{uid}.yaml" for uid in MODELS]
    assert {path.name for path in MANIFESTS.glob("*.yaml")} == {*found["resources"], "kustomization.yaml"}


def test_no_file_is_left_of_a_dashboard_that_is_gone() -> None:
    assert {path.stem for path in (ROOT / "dashboards" / "json").glob("*")} == set(MODELS)
    assert {path for path in generators() if not (ROOT / path).exists()} == set()


@pytest.fixture
def kubectl() -> str:
    found = shutil.which("kubectl")
    if found is None:
        # No package has one that is new enough.
        pytest.skip("kubectl is missing")
    return found


def test_kustomize_builds_it_and_an_overlay_sets_label_and_folder(kubectl: str, tmp_path: Path) -> None:
    """The overlay is the one of docs/dashboards.md."""
    page = (ROOT / "docs" / "dashboards.md").read_text()
    overlay = re.search(r"```yaml\n(apiVersion: kustomize.*?)```", page, re.DOTALL)
    assert overlay is not None
    shutil.copytree(MANIFESTS, tmp_path / "grafana")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kustomization.yaml").write_text(
        re.sub(r"(?m)^  - .*manifests/grafana.*$", "  - ../grafana", overlay[1])
    )
    command = [kubectl, "kustomize", str(tmp_path / "mine")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = list(yaml.safe_load_all(done.stdout))
    assert {one["metadata"]["name"] for one in built} == set(MODELS)
    for one in built:
        assert one["metadata"]["namespace"] == "grafana"
        assert one["metadata"]["labels"]["dashboards"] == "yes"
        assert one["metadata"]["annotations"]["folder"] == "GPUs"
        assert json.loads(next(iter(one["data"].values()))) == MODELS[one["metadata"]["name"]]


def test_provisioning_names_the_folder_as_push_does() -> None:
    (provider,) = read(MANIFESTS / "provisioning" / "dashboards.yaml")["providers"]
    assert (provider["folderUid"], provider["folder"], provider["type"]) == ("dutycycle", "Dutycycle", "file")
    assert provider["options"]["path"].startswith("/")
    (source,) = read(MANIFESTS / "provisioning" / "datasources.yaml")["datasources"]
    assert (source["type"], source["access"]) == ("prometheus", "proxy")
