"""Our exporter as a process on a node that is at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.exporters.measured import Exporter
from benchmarks.exporters.nodes import Node
from tests.exporter.daemon import Daemon, eventually

INTERVAL = 5.0
"""Seconds between its readings: the default."""


@contextmanager
def running(folder: Path, busy: Node, *flags: str, owners: bool = True) -> Iterator[Daemon]:
    """The exporter once it shows every device, and whose each is. `owners`: told where the schedulers say so."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [f"--path.{kind}={path}" for kind, path in busy.fake.paths.items()]
    known = (f"--slurm.prolog-dir={busy.prolog}", f"--kubernetes.socket={busy.kubelet}") if owners else ()
    with Daemon(folder, busy.fake.environment, *paths, *known, "--cluster=lab", *flags) as daemon:
        eventually(lambda: daemon.values("gpu_info"), "the GPUs are shown")
        if owners:
            eventually(lambda: len(daemon.values("gpu_allocation")) == busy.devices, "every device has its owner")
        yield daemon


def measurable(daemon: Daemon, name: str) -> Exporter:
    """Its two processes, for comparison."""
    child = eventually(daemon.child, "the child runs")
    assert child is not None
    return Exporter(name, (daemon.process.pid, child), daemon.port, INTERVAL)
