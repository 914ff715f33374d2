"""The command `dutycycle-dashboards`, run as people run it: in the environment of its own, as a process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.required import lacking

ENVIRONMENT = Path(__file__).resolve().parents[2] / ".venv" / "dashboards"


@dataclass(frozen=True)
class Done:
    """How it ended, and what it said."""

    code: int
    out: str
    err: str


def program() -> Path:
    """Its path; ends the test where it is missing."""
    found = ENVIRONMENT / "bin" / "dutycycle-dashboards"
    if not found.exists():
        lacking("the environment of dutycycle-dashboards (`make test` makes it)")
    return found


def environment(**more: str) -> Mapping[str, str]:
    """Of the process: none of what this process was told."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DUTYCYCLE_")}
    return kept | more


def dutycycle_dashboards(*arguments: str | Path, **variables: str) -> Done:
    """Run it to its end."""
    command = [str(program()), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=environment(**variables)
    )
    return Done(done.returncode, done.stdout, done.stderr)
