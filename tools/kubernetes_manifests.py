"""The Kubernetes manifests that are made: what has the project's version, and `install.yaml`, the base rendered."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from dutycycle_alerter import __version__

MANIFESTS = Path(__file__).resolve().parent.parent / "manifests"

_IMAGES = ("dutycycle-exporter", "dutycycle-alerter")
_OLDEST = (1, 27)
"""Of kubectl: older ones have a kustomize that does not know what the manifests use."""

_VERSION = "# Made from the project's version by `make generate`; do not edit.\n"
_INSTALL = """\
# Made from manifests/base by `make generate`; do not edit.
# Everything that works alone, without a Prometheus. The images are nowhere yet: build them, push them to a registry of
# yours and name it in an overlay (docs/install-kubernetes.md), or put them on the nodes.
#   kubectl apply -f manifests/install.yaml
"""


class MissingError(RuntimeError):
    """There is no kubectl that can render the manifests."""


def version() -> bytes:
    """What every object and image of the base has of the project's version, as a kustomize component."""
    made = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "labels": [{"pairs": {"app.kubernetes.io/version": __version__}, "includeTemplates": True}],
        "images": [{"name": image, "newTag": __version__} for image in _IMAGES],
    }
    return (_VERSION + yaml.safe_dump(made, sort_keys=False)).encode()


def install() -> bytes:
    """`kubectl apply -f` of this is `kubectl apply -k` of the base."""
    # In a copy, with the version as it would be made now: what is generated does not depend on what was before.
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory) / "base"
        shutil.copytree(MANIFESTS / "base", base)
        (base / "version/kustomization.yaml").write_bytes(version())
        return _INSTALL.encode() + render(base)


def render(directory: Path) -> bytes:
    """The objects of a kustomization, as YAML. Raises MissingError, CalledProcessError."""
    return subprocess.run([kubectl(), "kustomize", str(directory)], check=True, stdout=subprocess.PIPE).stdout


def kubectl() -> str:
    """A kubectl that is new enough: the environment's own, else the one in PATH. Raises MissingError."""
    old = []
    for program in _candidates():
        if (found := _version(program)) >= _OLDEST:
            return program
        old.append(f"{program} is {found[0]}.{found[1]}")
    wanted = f"kubectl {_OLDEST[0]}.{_OLDEST[1]} or newer"
    raise MissingError(f"{wanted} is needed to render the manifests: {'; '.join(old) or 'there is none'}")


def _candidates() -> Iterator[str]:
    beside = Path(sys.executable).parent / "kubectl"
    if beside.is_file():
        yield str(beside)
    if (found := shutil.which("kubectl")) is not None:
        yield found


def _version(program: str) -> tuple[int, int]:
    command = [program, "version", "--client", "--output=json"]
    said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["clientVersion"]
    # A minor version may have a sign behind it, as in "32+".
    return int(said["major"]), int(said["minor"].rstrip("+"))
