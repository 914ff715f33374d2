"""How big the container images are, and how long their Dockerfiles' steps take, without a container engine.

    python benchmarks/images.py                  # the base and both images from nothing: needs root and debootstrap
    python benchmarks/images.py --quick          # those that the tests have built, or build next

Sizes are of what lies beyond the base: a node that has the base for another image fetches only that.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import results
from benchmarks.exits import NOT_HERE
from benchmarks.results import Row
from tests.images import tree
from tests.images.base import PROGRAMS, base
from tests.images.image import STORE, build
from tests.images.store import Store

BUILT = "images from nothing, by their Dockerfiles' steps"
SUITE = "debian:trixie-slim"
MEGABYTE = 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    results.arguments(parser)
    options = parser.parse_args()
    if os.geteuid() != 0 or not all(map(shutil.which, PROGRAMS)):
        print(f"cannot run here: needs root and {', '.join(PROGRAMS)}", file=sys.stderr)
        sys.exit(NOT_HERE)
    with tempfile.TemporaryDirectory(dir=Path(sys.prefix)) as scratch:
        store = Store(STORE if options.quick else Path(scratch))
        started = time.monotonic()
        root = base(SUITE, store)
        seconds = time.monotonic() - started
        size = sum(entry.size for entry in _entries(root).values()) / MEGABYTE
        told = [Row(f"{BUILT}: the base, {SUITE}, by debootstrap", f"{seconds:.1f} s, {size:.0f} MB in all")]
        for component in ("exporter", "alerter"):
            image = build(component, store)
            found, below = _entries(image.root), _entries(root)
            more = sorted(name for name, entry in found.items() if below.get(name) != entry)
            figure = (
                f"{image.seconds:.1f} s, {tree.beyond(found, below) / MEGABYTE:.0f} MB beyond the base,"
                f" {_compressed(image.root, more) / MEGABYTE:.0f} MB as tar and gzip"
            )
            told.append(Row(f"{BUILT}: the {component}", figure))
        store.close()
    results.report(told, options)


def _entries(root: Path) -> dict[str, tree.Entry]:
    return tree.entries(root, until=int(time.time()))


def _compressed(root: Path, names: list[str]) -> int:
    """As a layer travels: tar and gzip."""
    command = ["tar", "--create", "--gzip", f"--directory={root}", "--no-recursion", "--null", "--files-from=-"]
    done = subprocess.run(command, input="\0".join(names).encode(), stdout=subprocess.PIPE, check=True)
    return len(done.stdout)


if __name__ == "__main__":
    main()
