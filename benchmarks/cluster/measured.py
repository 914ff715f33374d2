"""Passes of the alerter as they are measured: over a real Prometheus that was backfilled, and over canned answers."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster import canned, openmetrics
from benchmarks.cluster.fleet import Fleet
from benchmarks.cluster.passes import settings_of
from benchmarks.exporters.cost import cpu_seconds
from tests.prometheus.server import PrometheusServer

ROOT = Path(__file__).resolve().parent.parent.parent
AT = 1_780_000_000.0 // 86400 * 86400 + 43_200
"""Noon: all samples then lie in one block."""
PASSES = 3
INTERVAL = 30
"""Seconds between the samples."""


@dataclass(frozen=True)
class Pass:
    """One pass: seconds of time, of our CPU in all and by part; MB; what was asked and answered (bytes, unpacked)."""

    wall: float
    cpu: float
    reading: float
    judging: float
    writing: float
    queries: int
    waited: float
    bytes: int
    resident: float
    peak: float
    error: str | None
    open: int


@dataclass(frozen=True)
class Beside:
    """Passes over a Prometheus of so many series and samples, with its seconds of CPU for each and its MB after it."""

    gpus: int
    jobs: int
    series: int
    samples: int
    passes: tuple[Pass, ...]
    engine_cpu: tuple[float, ...]
    engine_resident: tuple[float, ...]


def over_prometheus(folder: Path, gpus: int, interval: int = INTERVAL) -> Beside:
    """Backfilled with what the passes ask for. Raises RuntimeError."""
    fleet = Fleet(gpus)
    text = folder / f"fleet{gpus}.om"
    series, samples = openmetrics.write(text, fleet, at=AT, until=AT + 60.0 * PASSES, interval=interval)
    server = PrometheusServer(folder / f"prometheus{gpus}", openmetrics=text)
    text.unlink()
    passes, cpu, resident = [], [], []
    with server:
        before = cpu_seconds(server.pid)
        for one in _passes(folder / f"prometheus{gpus}.sqlite3", server.url, interval, len(fleet.troubled)):
            used, before = cpu_seconds(server.pid) - before, cpu_seconds(server.pid)
            passes.append(one)
            cpu.append(used)
            resident.append(int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * 4096 / 1e6)
    return Beside(gpus, len(fleet.jobs), series, samples, tuple(passes), tuple(cpu), tuple(resident))


def over_canned(folder: Path, gpus: int, interval: int = INTERVAL) -> tuple[Pass, ...]:
    """On one core, the answers' server on another if there is one. Raises RuntimeError."""
    store, due = folder / f"canned{gpus}.sqlite3", len(Fleet(gpus).troubled)
    with _answering(gpus, interval) as url:
        return tuple(_passes(store, url, interval, due, "--one-core"))


def _passes(store: Path, url: str, interval: int, due: int, *flags: str) -> Iterator[Pass]:
    """Each as soon as it is done. `due` incidents are there to be opened by the first. Raises RuntimeError."""
    arguments = [url, f"--at={AT}", f"--passes={PASSES}", f"--interval={interval}", f"--store={store}", *flags]
    command = [sys.executable, "-m", "benchmarks.cluster.passes", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for number, line in enumerate(process.stdout, 1):
                yield proven(number, Pass(**json.loads(line)), due)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: ended with {process.returncode}")


def proven(number: int, one: Pass, due: int) -> Pass:
    """The pass, if it had the work of one. An alerter whose engine does not answer goes on with what it knows, and is
    done in no time. Raises RuntimeError.
    """
    if one.error:
        raise RuntimeError(f"pass {number} read nothing, so its figures are of no pass: {one.error}")
    if number == 1 and one.open < due:
        raise RuntimeError(f"pass 1 opened {one.open} incidents, and {due} jobs are worth one: it has not read of all")
    return one


@contextmanager
def _answering(gpus: int, interval: int) -> Iterator[str]:
    """The canned answers' server, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ready = context.Queue()
    settings = settings_of("http://127.0.0.1", interval)
    process = context.Process(target=canned.serve, args=(gpus, settings, AT, ready.put), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ready.get(timeout=600)}"
    finally:
        process.terminate()
        process.join()
