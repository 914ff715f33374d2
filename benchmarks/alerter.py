"""A pass of the alerter over a cluster: beside a real Prometheus, and at sizes that only canned answers reach.

Prometheus: 10,000 GPUs and 2,500 jobs, backfilled. Ours should take no more CPU time than Prometheus does for it, and
at most 400 MB. Canned answers: 10, 10,000, 30,000 and 100,000 GPUs on one core: at most 15 s and 1.5 GB for the last,
the same queries at every size.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cluster import canned, openmetrics
from benchmarks.cluster.fleet import Fleet
from benchmarks.cluster.passes import settings_of
from benchmarks.exporters.cost import cpu_seconds
from tests.prometheus.server import PrometheusServer

ROOT = Path(__file__).resolve().parent.parent
AT = 1_780_000_000.0 // 86400 * 86400 + 43_200
"""Noon: all samples then lie in one block."""
PASSES = 3
SIZES, QUICK_SIZES = (10, 10_000, 30_000, 100_000), (10, 1_000, 3_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes, or less")
    parser.add_argument("--gpus", type=int, help="beside Prometheus (10,000)")
    parser.add_argument("--interval", type=int, default=30, help="scrape interval in seconds (30)")
    parser.add_argument("--only", choices=("prometheus", "canned"))
    asked = parser.parse_args()
    gpus = asked.gpus or (500 if asked.quick else 10_000)
    with tempfile.TemporaryDirectory() as folder:
        if asked.only != "canned":
            beside_prometheus(Path(folder), gpus, asked.interval)
        if asked.only != "prometheus":
            for size in QUICK_SIZES if asked.quick else SIZES:
                over_canned(Path(folder), size, asked.interval)


def beside_prometheus(folder: Path, gpus: int, interval: int) -> None:
    fleet = Fleet(gpus)
    print(f"{gpus:,} GPUs, {len(fleet.jobs):,} jobs, a sample each {interval} s", flush=True)
    text, began = folder / "fleet.om", time.perf_counter()
    series, samples = openmetrics.write(text, fleet, at=AT, until=AT + 60.0 * PASSES, interval=interval)
    written = time.perf_counter() - began
    server = PrometheusServer(folder / "prometheus", openmetrics=text)
    text.unlink()
    filled = time.perf_counter() - began - written
    print(
        f"  {series:,} series, {samples:,} samples: written in {written:.0f} s, backfilled in {filled:.0f} s",
        flush=True,
    )
    with server:
        before = cpu_seconds(server.pid)
        for figures in passes(folder / "prometheus.sqlite3", server.url, interval):
            engine, before = cpu_seconds(server.pid) - before, cpu_seconds(server.pid)
            show(figures)
            resident = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * 4096 / 1e6
            share = figures["cpu"] / engine
            print(
                f"    Prometheus {engine:.1f} s of CPU, {resident:.0f} MB resident; ours / its {share:.2f}", flush=True
            )


def over_canned(folder: Path, gpus: int, interval: int) -> None:
    print(f"canned answers, {gpus:,} GPUs, one core", flush=True)
    with answering(gpus, interval) as url:
        for figures in passes(folder / f"canned{gpus}.sqlite3", url, interval, "--one-core"):
            show(figures)


def show(figures: dict[str, Any]) -> None:
    if figures["error"]:
        print(f"    FAILED: {figures['error']}")
    print(
        "    pass {wall:.1f} s; ours {cpu:.2f} s of CPU (reading {reading:.2f}, judging {judging:.2f}, writing"
        " {writing:.2f}), {resident:.0f} MB resident, {peak:.0f} at most; {queries} queries, waited for {waited:.1f} s"
        " in all, {megabytes:.0f} MB; {open:,} incidents".format(**figures, megabytes=figures["bytes"] / 1e6),
        flush=True,
    )


def passes(store: Path, url: str, interval: int, *flags: str) -> Iterator[dict[str, Any]]:
    """The figures of each pass, as soon as it is done."""
    arguments = [url, f"--at={AT}", f"--passes={PASSES}", f"--interval={interval}", f"--store={store}", *flags]
    command = [sys.executable, "-m", "benchmarks.cluster.passes", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: ended with {process.returncode}")


@contextmanager
def answering(gpus: int, interval: int) -> Iterator[str]:
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


if __name__ == "__main__":
    main()
