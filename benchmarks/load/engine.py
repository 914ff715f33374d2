"""A real Prometheus that scrapes a fleet: its memory and CPU by series, and the bytes that a sample takes on disk."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
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
BLOCKS = 3
"""That are waited for. Prometheus ends them where the clock has a multiple of their length, so that the first has an
index like the others', and the samples of whatever time was left.
"""
FULL = 0.9
"""Share of its scrapes from which on a block counts: on a busy machine a few are missing from any."""


@dataclass(frozen=True)
class Scraped:
    """A Prometheus while it scrapes: series in its head, samples a second, MB resident, seconds of CPU a second."""

    nodes: int
    series: float
    rate: float
    resident: float
    cpu: float


@dataclass(frozen=True)
class Block:
    """One on disk: its samples and series, and bytes of all its files and of those with chunks."""

    samples: int
    series: int
    whole: int
    chunks: int


@dataclass(frozen=True)
class Disk:
    """Bytes a sample in full blocks: with the index and all, and in chunks alone."""

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
    """A Prometheus that scrapes NODE into blocks of so many scrapes, in the background; the answer waits for BLOCKS."""
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
            while own(engine, "prometheus_tsdb_compactions_total") < BLOCKS:
                time.sleep(1)
            return of_full(blocks(engine.data), scrapes)

        yield disk


def blocks(data: Path) -> list[Block]:
    """Those that are written."""
    return [_block(path) for path in sorted(data.iterdir()) if (path / "meta.json").is_file()]


def _block(path: Path) -> Block:
    said = json.loads((path / "meta.json").read_text())["stats"]
    return Block(said["numSamples"], said["numSeries"], _size(path), _size(path / "chunks"))


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def of_full(found: Iterable[Block], scrapes: int) -> Disk:
    """Of those that have nearly as many scrapes. Raises RuntimeError where none has."""
    known = list(found)
    full = [one for one in known if one.samples >= FULL * scrapes * one.series]
    if not full:
        told = ", ".join(f"{one.samples:,} samples of {one.series:,} series" for one in known)
        raise RuntimeError(f"no block is full, of {scrapes} scrapes: {told or 'there is none'}")
    samples = sum(one.samples for one in full)
    whole, chunks = sum(one.whole for one in full), sum(one.chunks for one in full)
    return Disk(samples, len(full), whole / samples, chunks / samples)


def own(engine: PrometheusServer, name: str) -> float:
    """A metric of the engine's own, over all of its labels. One that counts by label is not there before its first."""
    with urllib.request.urlopen(f"{engine.url}/metrics", timeout=60) as answer:
        values = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", answer.read().decode(), re.MULTILINE)
    return sum(map(float, values))
