"""`python -m tools.generate [--check]`: writes every committed file that is made from code, or says which are stale.

A generator is a function without arguments whose answer depends on nothing but the code: not on the machine, its
environment, its time or the width of its terminal.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from tools import (
    alert_rules,
    demo_recording,
    grafana_files,
    image_locks,
    kubernetes_manifests,
    recording_rules,
    reference_cli,
    reference_configuration,
    reference_dcgm,
    reference_exporter,
    reference_metrics,
    reference_rules,
)

ROOT = Path(__file__).resolve().parent.parent

Generator = Callable[[], bytes]


GENERATORS: Mapping[str, Generator] = {
    "docs/cli.md": reference_cli.document,
    "docs/configuration.md": reference_configuration.document,
    "docs/dcgm.md": reference_dcgm.document,
    "docs/metrics.md": reference_metrics.document,
    "docs/rules.md": reference_rules.document,
    "alerter/config.example.yaml": reference_configuration.example,
    "exporter/config.example.yaml": reference_exporter.example,
    "manifests/prometheus/dutycycle-recording.rules.yaml": recording_rules.plain,
    "manifests/prometheus/prometheusrule.yaml": recording_rules.prometheus_rule,
    "manifests/prometheus/dutycycle-alerts.rules.yaml": alert_rules.plain,
    "manifests/prometheus/prometheusrule-alerts.yaml": alert_rules.prometheus_rule,
    "manifests/base/version/kustomization.yaml": kubernetes_manifests.version,
    "manifests/install.yaml": kubernetes_manifests.install,
    "requirements-alerter.lock": image_locks.alerter,
    "requirements-build.lock": image_locks.build,
    "requirements-exporter.lock": image_locks.exporter,
    "alerter/dutycycle_alerter/data/demo.csv.gz": demo_recording.compressed,
    **grafana_files.generators(),
}
"""What is generated: path from the root of the repository -> content."""


def stale(root: Path, generators: Mapping[str, Generator]) -> list[str]:
    """The paths whose files are missing or differ from what would be generated now."""
    return [path for path, make in generators.items() if _content(_read(root / path)) != _content(make())]


def write(root: Path, generators: Mapping[str, Generator]) -> list[str]:
    """Write what is stale; returns the paths. A file that is as it should be is left as it is."""
    changed = stale(root, generators)
    for path in changed:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(generators[path]())
    return changed


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _content(data: bytes | None) -> bytes | None:
    """What a file says: versions of zlib compress the same text to different bytes."""
    if data is None or not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return data


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 1 where --check found something."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate", description="Write every generated file.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is out of date")
    if not parser.parse_args(arguments).check:
        for path in write(ROOT, GENERATORS):
            print(f"written: {path}")
        return 0
    found = stale(ROOT, GENERATORS)
    for path in found:
        print(f"{path} is out of date: run `make generate` and commit it", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
