"""The kustomizations build: by the oldest kubectl as by the newest, without a warning, and none is left out."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.required import lacking
from tools.generate import GENERATORS

from .rendering import INSTALL, MANIFESTS, OLDEST_KUBECTL, Variant, build, kustomizations
from .schemas import OLDEST
from .variants import ALONE, BUILT_IN, COMPONENTS, EVERY, PARTS, WITH_ONE, installed, objects

NOT_OF_KUBERNETES = {
    "compose": "read by docker compose, Prometheus, Alertmanager, Grafana and the alerter",
    "grafana/provisioning": "read by a Grafana without Kubernetes",
    "slurm": "read by the alerter and Prometheus beside Slurm",
    "engines/victoriametrics": "read by the alerter and vmagent",
    "engines/mimir/limits.yaml": "read by Mimir",
    "prometheus/dutycycle-alerts.rules.yaml": "read by a Prometheus without the operator",
    "prometheus/dutycycle-recording.rules.yaml": "read by a Prometheus without the operator",
    "components/annotations/prometheus-scrape.yaml": "read by a Prometheus without the operator",
    "install.yaml": "the base, rendered",
}
"""YAML that no kustomization refers to: a file, or all below a folder, and why."""


@pytest.mark.parametrize("variant", EVERY, ids=str)
def test_the_oldest_kubectl_builds_the_same(variant: Variant) -> None:
    try:
        old = build(variant, OLDEST_KUBECTL)
    except OSError:
        lacking(f"a {OLDEST_KUBECTL.name} for this machine")
    assert old.objects() == objects(variant)
    assert old.warnings == ""


def test_the_oldest_kubectl_is_that_of_the_oldest_kubernetes() -> None:
    if not OLDEST_KUBECTL.exists():
        lacking(OLDEST_KUBECTL.name)
    told = subprocess.run([OLDEST_KUBECTL, "version", "--client"], capture_output=True, text=True, check=False).stdout
    assert f"Client Version: v{OLDEST}." in told


@pytest.mark.parametrize("variant", EVERY, ids=str)
def test_a_build_is_without_a_warning(variant: Variant) -> None:
    """Of deprecated fields, above all."""
    assert build(variant).warnings == ""


def test_a_warning_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("commonLabels: {a: b}\n")
    (tmp_path / "one.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
    assert "deprecated" in build(Variant(str(tmp_path))).warnings


def test_every_kustomization_is_built() -> None:
    """The parts are resources of the base, which is built."""
    built = {variant.kustomization for variant in ALONE} | PARTS
    assert built == set(kustomizations())
    base = yaml.safe_load((MANIFESTS / "base/kustomization.yaml").read_text())
    assert {f"base/{name}" for name in base["resources"] if not name.endswith(".yaml")} == PARTS
    assert {variant.components[-1] for variant in WITH_ONE} | BUILT_IN == set(kustomizations("Component"))
    assert {f"base/{name}" for name in base["components"]} == BUILT_IN
    # More kinds of kustomizations there are none.
    assert len(list(MANIFESTS.rglob("kustomization.y*ml"))) == len(kustomizations()) + len(kustomizations("Component"))


def _referred(value: Any) -> Iterator[str]:
    """Everything in a kustomization that could be a path."""
    if isinstance(value, dict):
        for part in value.values():
            yield from _referred(part)
    elif isinstance(value, list):
        for part in value:
            yield from _referred(part)
    elif isinstance(value, str) and "\n" not in value:
        # Files of generators may have a key before them.
        yield value.rpartition("=")[2]


def test_every_file_is_in_a_kustomization() -> None:
    found = set()
    for name in (*kustomizations(), *kustomizations("Component")):
        folder = MANIFESTS / name
        found.add(folder / "kustomization.yaml")
        for path in _referred(yaml.safe_load((folder / "kustomization.yaml").read_text())):
            if (folder / path).is_file():
                found.add((folder / path).resolve())
    left = {path.relative_to(MANIFESTS).as_posix() for path in set(MANIFESTS.rglob("*.y*ml")) - found}
    unexplained = {one for one in left if not any(f"{one}/".startswith(f"{known}/") for known in NOT_OF_KUBERNETES)}
    assert unexplained == set()
    assert {known for known in NOT_OF_KUBERNETES if not any(f"{one}/".startswith(f"{known}/") for one in left)} == set()


def test_what_is_installed_is_the_base() -> None:
    assert installed() == objects(Variant("base"))
    assert f"manifests/{INSTALL.name}" in GENERATORS


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_changes_something(name: str) -> None:
    assert objects(Variant("base", (name,))) != objects(Variant("base"))
