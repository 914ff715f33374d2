"""A real Prometheus that scrapes a fleet: its memory and CPU by series, and the bytes that a sample takes on disk."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.exporters import copies, ours
from benchmarks.exporters.cost import cpu_seconds
from benchmarks.exporters.nodes import node
from benchmarks.load.pages import NODE
from tests.fakes.nvml.compiler import Libraries
from tests.prometheus.server import PrometheusServer

INTERVAL = 15.0
"""Seconds between scrapes, as everywhere in the documents."""
SCRAPES = 480
"""In a block of Prometheus: two hours at that interval."""
SCALE = 30.0
"""How much faster the scrapes for the blocks are. The exporter reads as often in between as in production."""


@dataclass(frozen=True)
class Scraped:
    """A Prometheus while it scrapes: series in its head, samples a second, MB resident, seconds of CPU a second."""

    nodes: int
    series: float
    rate: float
    resident: float
    cpu: float


@dataclass(frozen=True)
class Disk:
    """Bytes a sample: with the index and all, and in chunks alone."""

    samples: int
    blocks: int
    whole: float
    chunks: float


def scraping(folder: Path, libraries: Libraries, sizes: tuple[int, ...], seconds: float) -> Iterator[Scraped]:
    """One engine after the other, each with so many nodes like NODE, watched for some time after two scrapes."""
    with (
        node(folder / "node", libraries, NODE) as busy,
        ours.running(folder / "exporter", busy) as daemon,
        copies.served(f"http://127.0.0.1:{daemon.port}/metrics") as address,
    ):
        for size in sizes:
            yield _scraping(folder / f"engine-{size}", address, size, seconds)


def _scraping(folder: Path, address: str, size: int, seconds: float) -> Scraped:
    targets = [copies.NODES.format(number) for number in range(size)]
    appended = "prometheus_tsdb_head_samples_appended_total"
    with PrometheusServer(
        folder, targets=targets, interval=f"{INTERVAL:g}s", scrape=copies.relabelled(address)
    ) as engine:
        time.sleep(2 * INTERVAL)
        began, used, before = time.monotonic(), cpu_seconds(engine.pid), own(engine, appended)
        time.sleep(seconds)
        passed = time.monotonic() - began
        cpu, rate = (cpu_seconds(engine.pid) - used) / passed, (own(engine, appended) - before) / passed
        resident = own(engine, "process_resident_memory_bytes") / 1e6
        return Scraped(size, own(engine, "prometheus_tsdb_head_series"), rate, resident, cpu)


@contextmanager
def filling(folder: Path, libraries: Libraries, scrapes: int = SCRAPES) -> Iterator[Callable[[], Disk]]:
    """A Prometheus that scrapes NODE into blocks of so many scrapes, in the background; the answer waits for two."""
    seconds = scrapes * INTERVAL / SCALE
    flags = [f"--storage.tsdb.{bound}-block-duration={seconds:g}s" for bound in ("min", "max")]
    with ExitStack() as stack:
        busy = stack.enter_context(node(folder / "node", libraries, NODE, time_scale=SCALE))
        daemon = stack.enter_context(ours.running(folder / "exporter", busy, f"--time-scale={SCALE:g}"))
        engine = stack.enter_context(
            PrometheusServer(
                folder / "engine",
                targets=[f"127.0.0.1:{daemon.port}"],
                interval=f"{1000 * INTERVAL / SCALE:.0f}ms",
                flags=flags,
            )
        )

        def disk() -> Disk:
            while own(engine, "prometheus_tsdb_compactions_total") < 2:
                time.sleep(1)
            return _disk(engine)

        yield disk


def _disk(engine: PrometheusServer) -> Disk:
    chunks = own(engine, "prometheus_tsdb_compaction_chunk_size_bytes_sum")
    inside = own(engine, "prometheus_tsdb_compaction_chunk_samples_sum")
    blocks = [path for path in engine.data.iterdir() if (path / "meta.json").is_file()]
    total = sum(file.stat().st_size for block in blocks for file in block.rglob("*") if file.is_file())
    samples = sum(int(re.findall(r'"numSamples": (\d+)', (b / "meta.json").read_text())[0]) for b in blocks)
    return Disk(samples, len(blocks), total / samples, chunks / inside)


def own(engine: PrometheusServer, name: str) -> float:
    """A metric of the engine's own, over all of its labels. One that counts by label is not there before its first."""
    with urllib.request.urlopen(f"{engine.url}/metrics", timeout=60) as answer:
        values = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", answer.read().decode(), re.MULTILINE)
    return sum(map(float, values))
