"""The exporter beside nvitop-exporter: what a scrape, a reading of NVML and being there cost.

    python benchmarks/exporter.py                # nodes of 1, 8 and 16 GPUs and of 8 GPUs in 7 MIG instances; minutes
    python benchmarks/exporter.py --quick        # a few scrapes of a node of 8 GPUs
    chrt --rr 1 python benchmarks/exporter.py    # where other work on the machine lengthens the longest scrapes

On each node three exporters run at the same time on the same NVML: ours with every collector on and dcgm-exporter's
names beside its own, ours with the families that nvitop-exporter has (and nobody's jobs), and nvitop-exporter, which is
installed from PyPI into a scratch environment. They are scraped in turns, so that whatever else the machine does hits
them alike: compare figures of one run with each other. NVML is the test double, whose calls return at once (what a real
driver takes for them comes on top), but which looks for events 35 times a second while a driver is silent (which
is most of our background CPU here). nvitop-exporter also has encoders, decoders and the host's CPU, disks and networks;
on real GPUs it would have every single NVLink, too. Needs gcc.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.exporters import rival
from benchmarks.exporters.measured import Exporter, Figures, figures, scrape_in_turns, watch
from benchmarks.exporters.nodes import Shape, node
from tests.exporter.daemon import Daemon, eventually
from tests.fakes.node import FakeNode
from tests.fakes.nvml.compiler import Libraries, build

SHAPES = (Shape(1), Shape(8), Shape(16), Shape(8, 7))
JUDGED = Shape(8)
"""The node that the targets are about."""
ENOUGH = 100
"""Scrapes below which there is no p99 to judge."""
INTERVAL = 5.0
"""Seconds between our readings: the default."""
EVERYTHING = ("--collect.processes", "--collect.accounting", "--compat=dcgm")
ALIKE = (
    *("--collect.processes", "--no-kubernetes"),
    *(f"--no-collect.{name}" for name in ("throttle", "ecc", "gpm", "xid", "host")),
)
"""nvitop-exporter shows utilization, memory, clocks, power, temperature, fan, PCIe and NVLink traffic, processes."""
OURS, SAME, RIVAL = "everything on", "nvitop's families", "nvitop-exporter"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few scrapes of one node: that it works, not how fast")
    parser.add_argument("--scrapes", type=int, help="of each exporter on each node, plain and with gzip [300]")
    parser.add_argument("--watch", type=float, help="seconds for which the exporters are watched at rest [60]")
    options = parser.parse_args()
    scrapes = options.scrapes or (20 if options.quick else 300)
    seconds = options.watch or (2 * INTERVAL if options.quick else 60.0)
    with tempfile.TemporaryDirectory() as folder:
        libraries = build(Path(folder) / "nvml")
        command = rival.install(Path(folder) / "rival")
        if command is not None:
            print(rival.versions(command))
        for shape in (JUDGED,) if options.quick else SHAPES:
            found = measure(Path(folder) / shape.name.replace(" ", "-"), libraries, shape, command, scrapes, seconds)
            show(shape, found)
            if shape == JUDGED and scrapes >= ENOUGH:
                judge(shape, found)


def measure(
    folder: Path, libraries: Libraries, shape: Shape, command: Path | None, scrapes: int, seconds: float
) -> dict[str, Figures]:
    """Figures by exporter."""
    with ExitStack() as stack:
        folder.mkdir()
        busy = stack.enter_context(node(folder, libraries, shape))
        owners = (f"--slurm.prolog-dir={busy.prolog}", f"--kubernetes.socket={busy.kubelet}")
        exporters = [
            ours(stack, folder / "everything", busy.fake, OURS, *owners, *EVERYTHING),
            ours(stack, folder / "alike", busy.fake, SAME, f"--path.procfs={folder}", *ALIKE),
        ]
        if command is not None:
            pid, port = stack.enter_context(rival.running(command, folder, busy.fake.environment))
            exporters.append(Exporter(RIVAL, (pid,), port, rival.INTERVAL))
        watch(exporters, seconds)
        scrape_in_turns(exporters, scrapes)
        return {one.name: figures(one) for one in exporters}


def ours(stack: ExitStack, folder: Path, fake: FakeNode, name: str, *flags: str) -> Exporter:
    """Our exporter, once it shows every device."""
    folder.mkdir()
    paths = [f"--path.{kind}={path}" for kind, path in fake.paths.items()]
    daemon = stack.enter_context(
        Daemon(folder, fake.environment, *paths, f"--sample-interval={INTERVAL:g}s", "--cluster=lab", *flags)
    )
    eventually(lambda: daemon.values("gpu_info"), "the GPUs are shown")
    child = eventually(daemon.child, "the child runs")
    assert child is not None
    return Exporter(name, (daemon.process.pid, child), daemon.port, INTERVAL)


def show(shape: Shape, found: dict[str, Figures]) -> None:
    print(f"\n{shape.name:<44}" + "".join(f"{name:>20}" for name in found))
    columns = [list(rows(one)) for one in found.values()]
    for row in zip(*columns, strict=True):
        print(f"  {row[0][0]:<42}" + "".join(f"{value:>20.3f}" for _, value in row), flush=True)


def rows(one: Figures) -> Iterator[tuple[str, float]]:
    """What is printed of an exporter: name with unit, and figure."""
    yield "a page, kB", one.size / 1e3
    yield "  series", one.series
    yield "scrape, p50, ms", one.p50 * 1e3
    yield "scrape, p99, ms", one.p99 * 1e3
    yield "scrape, p99 / p50", one.p99 / one.p50
    yield "scrape, CPU, ms", one.cpu * 1e3
    yield "scrape, CPU of 100 series, ms", one.cpu * 1e5 / one.series
    yield "scrape, CPU, p99 / p50", one.cpu_spread
    yield "scrape with gzip, CPU, ms", one.cpu_packed * 1e3
    yield "background CPU, % of a core", one.background * 100
    yield "  of which the process that serves", one.processes[0] * 100
    yield "background CPU in a minute, ms", one.background * 60e3
    yield "background CPU of a reading, ms", one.reading * 1e3
    yield "CPU in a minute, scraped every 15 s, ms", one.minute * 1e3
    yield "memory, resident (RSS), MB", one.memory.resident
    yield "memory, its share (PSS), MB", one.memory.pss
    yield "memory, PSS as if alone with Python, MB", one.memory.alone


def judge(shape: Shape, found: dict[str, Figures]) -> None:
    """Each target, met or not."""
    all_on, alike, other = found[OURS], found[SAME], found.get(RIVAL)
    print(f"\ntargets on {shape.name}")
    if other is not None:
        verdict("CPU of a scrape with nvitop-exporter's families, of its", alike.cpu / other.cpu, 0.5)
        verdict("CPU of a scrape with everything on, of its", all_on.cpu / other.cpu, 1.0)
    verdict("memory of both processes, everything on (PSS as if alone), MB", all_on.memory.alone, 64)
    verdict("background CPU, everything on, % of a core", all_on.background * 100, 1.5)
    verdict("p99 of a scrape, everything on, of its p50", all_on.p99 / all_on.p50, 2.0)


def verdict(target: str, value: float, most: float) -> None:
    print(f"  {'met' if value <= most else 'NOT MET':<8}{target}: {value:.2f}, at most {most:g}")


if __name__ == "__main__":
    main()
