"""What an extra of this project needs, with versions and hashes, out of requirements.lock: for images, and for machines
that have no package index.

    python -m tools.locked_extra exporter > exporter.lock
    pip download --require-hashes -r exporter.lock

The dependencies are those of the packages that are installed where this runs, which is the locked environment.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).parents[1] / "requirements.lock"
PROJECT = "dutycycle"


def locked(text: str) -> dict[str, list[str]]:
    """The entries of a lock, each with its hashes, by the package's name: one for each Python that needs its own."""
    entries = re.findall(r"^(?:[^#\s].*\\\n(?:.*\\\n)*.*|[^#\s].*)$", text, re.MULTILINE)
    found: dict[str, list[str]] = {}
    for entry in entries:
        found.setdefault(canonicalize_name(re.split(r"[\s=\[;]", entry, maxsplit=1)[0]), []).append(entry)
    return found


def needed(extras: Iterable[str], lock: Mapping[str, object], project: str = PROJECT) -> set[str]:
    """Names of all packages that the extras need, their own needs included, on any system that the lock is for."""
    found: set[str] = set()
    todo = [(project, frozenset(extras))]
    while todo:
        name, wanted = todo.pop()
        for text in _requirements(name):
            requirement = Requirement(text)
            key = canonicalize_name(requirement.name)
            if key in lock and key not in found and _is_wanted(requirement, wanted):
                found.add(key)
                todo.append((key, frozenset(requirement.extras)))
    return found


def _requirements(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []  # of another system


def _is_wanted(requirement: Requirement, extras: frozenset[str]) -> bool:
    """Whether one of the extras asks for it, or nobody has to; other conditions are in the lock's own entry."""
    marker = requirement.marker
    if marker is None or "extra" not in str(marker):
        return True
    return any(marker.evaluate({"extra": extra}) for extra in extras)


def text(extras: Iterable[str]) -> str:
    """The lock's entries for these extras."""
    lock = locked(LOCK.read_text())
    return "".join(f"{entry}\n" for name in sorted(needed(extras, lock)) for entry in lock[name])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m tools.locked_extra EXTRA...")
    sys.stdout.write(text(sys.argv[1:]))
