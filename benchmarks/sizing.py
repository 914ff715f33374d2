"""What a fleet costs the Prometheus that scrapes it: series, samples, bytes on disk, memory; and what follows for more.

    python benchmarks/sizing.py              # 25 minutes, nearly all of them waiting
    python benchmarks/sizing.py --quick      # that it works; its figures say little
    python benchmarks/sizing.py --only series

Three parts:

series   counted on the real exporter's page, on nodes of the NVML double: by GPU, by owner and by node.
disk     a real Prometheus scrapes that exporter once a second for a while, the exporter reading as often: so there are
         as many samples in each of its blocks as two hours have at 15 s. Bytes of the blocks, index and all, by sample.
head     a real Prometheus scrapes the same page as 125 and as 375 nodes of 8 GPUs every 15 s: its memory and CPU by
         series.

The table at the end is arithmetic from these: it says so. Needs gcc. Nothing here asks how fast the machine is.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.exporters import copies
from benchmarks.exporters.nodes import Shape, node
from tests.exporter.daemon import Daemon, eventually
from tests.fakes.nvml.compiler import Libraries, build
from tests.prometheus.server import PrometheusServer

INTERVAL = 15
"""Seconds between scrapes, as everywhere in the documents."""
BLOCK = 7200
"""Seconds of a block of Prometheus."""
DAY = 86400
FLEETS = (1_000, 10_000, 100_000)
NODE = Shape(8)
SHAPES = (Shape(1), NODE, Shape(16), Shape(8, 7))
FLAGS = {"defaults": (), "with --collect.processes": ("--collect.processes",), "with --compat=dcgm": ("--compat=dcgm",)}
SIZES = (125, 375)
"""Nodes."""


@dataclass(frozen=True)
class Series:
    """How many a page has: of devices, of owners on devices, of the node and the exporter itself."""

    device: int
    owner: int
    node: int

    @property
    def total(self) -> int:
        return self.device + self.owner + self.node


@dataclass(frozen=True)
class Head:
    """What a Prometheus is while it scrapes."""

    series: float
    resident: float
    cpu: float
    """Seconds a second."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one shape, short: that it works")
    parser.add_argument("--only", choices=("series", "disk", "head"), help="one part alone, without the table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        libraries = build(folder / "nvml")
        if options.only in (None, "series"):
            counted = series(folder, libraries, (NODE,) if options.quick else SHAPES)
        if options.only in (None, "disk"):
            bytes_each = disk(folder, libraries, seconds=20 if options.quick else BLOCK // INTERVAL)
        if options.only in (None, "head"):
            head(folder, libraries, *((5,), 3.0, 10.0) if options.quick else (SIZES, INTERVAL, 180.0))
        if options.only is None:
            table(counted, bytes_each)


@contextmanager
def exporter(folder: Path, libraries: Libraries, shape: Shape, *flags: str, interval: float = 5.0) -> Iterator[Daemon]:
    """A real exporter on a node that is at work, once everything is shown."""
    folder.mkdir(parents=True)
    with node(folder, libraries, shape) as busy:
        paths = [f"--path.{kind}={path}" for kind, path in busy.fake.paths.items()]
        owners = (f"--slurm.prolog-dir={busy.prolog}", f"--kubernetes.socket={busy.kubelet}")
        with Daemon(
            folder, busy.fake.environment, *paths, *owners, f"--sample-interval={interval:g}s", "--cluster=lab", *flags
        ) as daemon:
            eventually(lambda: len(daemon.values("gpu_allocation")) == shape.devices, "every device has its owner")
            yield daemon


def series(folder: Path, libraries: Libraries, shapes: tuple[Shape, ...]) -> Series:
    """Prints the counts; returns those of NODE with the defaults."""
    found = {}
    print(f"\nseries on a page{'':<24}{'device':>10}{'owner':>10}{'node':>8}{'total':>9}   a GPU, all in all")
    for shape in shapes:
        for name, flags in FLAGS.items():
            with exporter(folder / f"series-{len(found)}", libraries, shape, *flags) as daemon:
                # GPM, whose first reading is a difference, and the owners' first samples.
                eventually(lambda d=daemon: d.values("workload_gpu_busy_seconds_total"), "there is a second snapshot")
                time.sleep(12)
                one = found[shape, name] = count(daemon.get("/metrics")[1])
            print(
                f"  {shape.name + ', ' + name:<38}{one.device:>10}{one.owner:>10}{one.node:>8}{one.total:>9}"
                f"   {one.total / shape.gpus:.0f}",
                flush=True,
            )
    return found[NODE, "defaults"]


def count(page: str) -> Series:
    """By the labels that a series has."""
    device = owner = other = 0
    for line in page.splitlines():
        if line and not line.startswith("#"):
            if 'workload="' in line:
                owner += 1
            elif 'gpu_uuid="' in line or 'UUID="' in line:
                device += 1
            else:
                other += 1
    return Series(device, owner, other)


def disk(folder: Path, libraries: Libraries, seconds: int) -> float:
    """Bytes of a sample in Prometheus' blocks, with the index and all."""
    place = folder / "disk"
    flags = [f"--storage.tsdb.{bound}-block-duration={seconds}s" for bound in ("min", "max")]
    with (
        exporter(place / "node", libraries, NODE, "--series-hold=2s", interval=1.0) as daemon,
        PrometheusServer(place / "engine", targets=[f"127.0.0.1:{daemon.port}"], flags=flags) as engine,
    ):
        print(f"\ndisk: a scrape each second, blocks of {seconds} of them; waiting for two", flush=True)
        while own(engine, "prometheus_tsdb_compactions_total") < 2:
            time.sleep(1)
        chunks = own(engine, "prometheus_tsdb_compaction_chunk_size_bytes_sum")
        inside = own(engine, "prometheus_tsdb_compaction_chunk_samples_sum")
        blocks = [path for path in engine.data.iterdir() if (path / "meta.json").is_file()]
        total = sum(file.stat().st_size for block in blocks for file in block.rglob("*") if file.is_file())
        samples = sum(int(re.findall(r'"numSamples": (\d+)', (b / "meta.json").read_text())[0]) for b in blocks)
    print(
        f"  {samples:,} samples in {len(blocks)} blocks: {total / samples:.2f} bytes a sample with the index,"
        f" {chunks / inside:.2f} in chunks alone",
        flush=True,
    )
    return total / samples


def head(folder: Path, libraries: Libraries, sizes: tuple[int, ...], interval: float, seconds: float) -> None:
    """Prints what a Prometheus with nothing to scrape is, and with so many nodes."""
    place = folder / "head"
    print(f"\nhead: nodes of {NODE.name}, a scrape each {interval:g} s, {seconds:g} s", flush=True)
    with (
        exporter(place / "node", libraries, NODE) as daemon,
        copies.served(f"http://127.0.0.1:{daemon.port}/metrics") as address,
    ):
        for size in (0, *sizes):
            one = scraped(place / f"engine-{size}", address, size, interval, seconds)
            print(
                f"  {size:>5} nodes: {one.series:>9,.0f} series, {one.resident / 1e6:>7,.0f} MB resident,"
                f" {one.cpu * 100:>5.1f} % of a core",
                flush=True,
            )


def scraped(folder: Path, address: str, size: int, interval: float, seconds: float) -> Head:
    targets = [copies.NODES.format(number) for number in range(size)]
    with PrometheusServer(
        folder, targets=targets, interval=f"{interval:g}s", scrape=copies.relabelled(address)
    ) as engine:
        time.sleep(2 * interval)
        began, before = time.monotonic(), own(engine, "process_cpu_seconds_total")
        time.sleep(seconds)
        cpu = (own(engine, "process_cpu_seconds_total") - before) / (time.monotonic() - began)
        return Head(own(engine, "prometheus_tsdb_head_series"), own(engine, "process_resident_memory_bytes"), cpu)


def own(engine: PrometheusServer, name: str) -> float:
    """A metric of the engine's own."""
    with urllib.request.urlopen(f"{engine.url}/metrics", timeout=30) as answer:
        [value] = re.findall(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(value)


def table(node_series: Series, bytes_each: float) -> None:
    """Arithmetic: nodes of 8 GPUs, each GPU held by a job of its own, nothing dropped, 15 s."""
    each = node_series.total / NODE.gpus
    print(f"\narithmetic from these: nodes of {NODE.name}, each GPU with an owner, {INTERVAL} s, 30 days kept")
    print(f"{'GPUs':>9}{'series':>14}{'samples/s':>12}{'a day, GB':>12}{'30 days, GB':>13}")
    for gpus in FLEETS:
        rate = gpus * each / INTERVAL
        day = rate * DAY * bytes_each / 1e9
        print(f"{gpus:>9,}{gpus * each:>14,.0f}{rate:>12,.0f}{day:>12,.1f}{30 * day:>13,.0f}")


if __name__ == "__main__":
    main()
