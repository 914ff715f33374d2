"""manifests/compose as the real docker-compose understands it: merged, variables filled in, paths made absolute."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.prometheus.server import program
from tests.required import lacking

ROOT = Path(__file__).parents[3]
HERE = ROOT / "manifests" / "compose"
SETUPS = ("demo", "gpu")

Service = Mapping[str, Any]


def compose(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run in the folder, with nothing of this process's environment that it would take for its own."""
    path = program("docker-compose")
    version = subprocess.run([path, "version", "--short"], capture_output=True, text=True, check=False, timeout=60)
    if version.stdout.lstrip("v").startswith(("1.", "0.")) or version.returncode:
        lacking("docker-compose 2")
    return subprocess.run(
        [path, *arguments],
        cwd=HERE,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@cache
def project(setup: str) -> Mapping[str, Any]:
    """All of it, by `demo.env` or `gpu.env`."""
    done = compose("--env-file", f"{setup}.env", "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def services(setup: str) -> Mapping[str, Service]:
    """By name."""
    found: Mapping[str, Service] = project(setup)["services"]
    return found
