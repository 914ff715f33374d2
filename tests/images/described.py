"""What is installed in an image, as its own Python says."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.images.container import Confinement, command
from tests.images.image import REPOSITORY, Image

_ASKED = """\
import importlib.metadata, json, os, platform, sys
found = {each.metadata["Name"]: [each.version, each.requires or []] for each in importlib.metadata.distributions()}
version = platform.python_version()
print(json.dumps({"packages": found, "environment": {
    "python_version": version.rpartition(".")[0], "python_full_version": version, "sys_platform": sys.platform,
    "os_name": os.name, "platform_system": platform.system(), "platform_machine": platform.machine(),
    "implementation_name": sys.implementation.name, "platform_python_implementation": platform.python_implementation(),
}}))
"""


@dataclass(frozen=True)
class Packages:
    """Versions and requirements by canonical name, and the environment that markers are about."""

    versions: dict[str, str]
    requires: dict[str, list[str]]
    environment: dict[str, str]

    def needed(self, extras: frozenset[str]) -> set[str]:
        """All that the project needs with these extras, in this environment, and itself."""
        found, todo = {"dutycycle"}, [("dutycycle", extras)]
        while todo:
            name, wanted = todo.pop()
            for text in self.requires.get(name, []):
                requirement = Requirement(text)
                key = canonicalize_name(requirement.name)
                if key not in found and self._holds(requirement, wanted):
                    found.add(key)
                    todo.append((key, frozenset(requirement.extras)))
        return found

    def locked(self, lock: Path) -> dict[str, str]:
        """Versions of a lock's packages for this environment."""
        lines = [line.removesuffix("\\").strip() for line in lock.read_text().splitlines() if line[:1].strip()]
        requirements = [Requirement(line) for line in lines]
        kept = [each for each in requirements if self._holds(each, frozenset())]
        return {canonicalize_name(each.name): str(each.specifier).removeprefix("==") for each in kept}

    def _holds(self, requirement: Requirement, extras: frozenset[str]) -> bool:
        marker = requirement.marker
        return marker is None or any(marker.evaluate(self.environment | {"extra": each}) for each in extras | {""})


def run(image: Image, *argv: str, confinement: Confinement | None = None, **variables: str) -> str:
    """What a command in the image says; it must succeed."""
    started = command(
        image.root,
        argv,
        confinement or Confinement(user=image.user),
        environment={**image.env, **variables},
        workdir=image.workdir,
    )
    done = subprocess.run(started, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def packages(image: Image) -> Packages:
    said: dict[str, Any] = json.loads(run(image, "python", "-c", _ASKED))
    named = {canonicalize_name(name): value for name, value in said["packages"].items()}
    return Packages(
        versions={name: version for name, (version, _) in named.items()},
        requires={name: requires for name, (_, requires) in named.items()},
        environment=said["environment"],
    )


def locks(component: str) -> Path:
    return REPOSITORY / f"requirements-{component}.lock"
