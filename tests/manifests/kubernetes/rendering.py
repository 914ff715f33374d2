"""What `kubectl kustomize` makes of the manifests: of each kustomization, and of the base with components."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from tests.required import lacking

ROOT = Path(__file__).resolve().parents[3]
MANIFESTS = ROOT / "manifests"
INSTALL = MANIFESTS / "install.yaml"
NEWEST_KUBECTL = ROOT / ".venv" / "bin" / "kubectl"
OLDEST_KUBECTL = ROOT / ".venv" / "bin" / "kubectl-1.30"
_KUSTOMIZATION = "kustomization.yaml"

Object = dict[str, Any]
"""One Kubernetes object, as JSON says it."""


@dataclass(frozen=True)
class Variant:
    """One way to install: a kustomization, and components that are put on it. Both are paths below manifests/."""

    kustomization: str
    components: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " + ".join((self.kustomization, *self.components))


@dataclass(frozen=True)
class Build:
    """What one kubectl said: the objects, and what it warned of."""

    text: str
    warnings: str

    def objects(self) -> list[Object]:
        """A new copy at each call: tests spoil theirs."""
        found: list[Object] = json.loads(self._objects)
        return found

    @cached_property
    def _objects(self) -> str:
        """YAML takes long to read, above all that with dashboards in it."""
        return json.dumps(parsed(self.text))


def kustomizations(kind: str = "Kustomization") -> tuple[str, ...]:
    """Where in manifests/ there is one of this kind: "Kustomization", or "Component"."""
    files = sorted(MANIFESTS.rglob(_KUSTOMIZATION))
    return tuple(_below(file) for file in files if yaml.safe_load(file.read_text()).get("kind") == kind)


def _below(file: Path) -> str:
    return file.parent.relative_to(MANIFESTS).as_posix()


@cache
def build(variant: Variant, kubectl: Path = NEWEST_KUBECTL) -> Build:
    """Fails the test where kubectl does; skips it where there is no such kubectl."""
    if not kubectl.exists():
        lacking(f"{kubectl.name} (`make test` fetches it)")
    with tempfile.TemporaryDirectory() as scratch:
        folder = MANIFESTS / variant.kustomization
        if variant.components:
            folder = _combined(variant, Path(scratch).resolve())
        done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{variant}: {done.stderr}"
    return Build(done.stdout, done.stderr)


def _combined(variant: Variant, folder: Path) -> Path:
    """A kustomization of its own elsewhere, as a site writes one. Kustomize takes folders by relative paths alone."""

    def path(below: str) -> str:
        return os.path.relpath(MANIFESTS / below, folder)

    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [path(variant.kustomization)],
        "components": [path(component) for component in variant.components],
    }
    (folder / _KUSTOMIZATION).write_text(json.dumps(content))
    return folder


def parsed(text: str) -> list[Object]:
    return [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one is not None]


def named(objects: list[Object], kind: str, name: str) -> Object:
    """The one of this kind and name."""
    (found,) = (one for one in objects if one["kind"] == kind and one["metadata"]["name"] == name)
    return found
