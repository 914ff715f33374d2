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

from benchmarks import results
from benchmarks.exporters import ours, rival
from benchmarks.exporters.measured import Exporter, Figures, figures, scrape_in_turns, watch
from benchmarks.exporters.nodes import PATTERN, Shape, node
from benchmarks.exporters.told import Told, gauge, listened
from benchmarks.interruptible import run_until_interrupted
from benchmarks.results import Row
from tests.fakes.nvml.compiler import Libraries, build

SHAPES = (Shape(1), Shape(8), Shape(16), Shape(8, 7))
JUDGED = Shape(8)
"""The node that the targets are about."""
ENOUGH = 100
"""Scrapes below which there is no p99 to judge."""
EVERYTHING = ("--collect.processes", "--collect.accounting", "--compat=dcgm")
ALIKE = (
    *("--collect.processes", "--no-kubernetes"),
    *(f"--no-collect.{name}" for name in ("throttle", "ecc", "gpm", "xid", "host")),
)
"""nvitop-exporter shows utilization, memory, clocks, power, temperature, fan, PCIe and NVLink traffic, processes."""
KEPT = {
    "scrape, CPU, ms": 1,
    "scrape with gzip, CPU, ms": 1,
    "scrape, p50, ms": 1,
    "scrape, p99, ms": 1,
    "series": 0,
    "a page, kB": 0,
    "background CPU, % of a core": 2,
    "background CPU of a reading, ms": 0,
    "memory, resident (RSS), MB": 0,
    "memory, PSS as if alone with Python, MB": 0,
}
"""Rows that are kept, and their decimals."""
OURS, SAME, RIVAL = "everything on", "nvitop's families", "nvitop-exporter"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    results.arguments(parser)
    parser.add_argument("--scrapes", type=int, help="of each exporter on each node, plain and with gzip [300]")
    parser.add_argument("--listen", type=int, help="scrapes each 15 s of what they say of known utilization [20]")
    parser.add_argument("--watch", type=float, help="seconds for which the exporters are watched at rest [60]")
    options = parser.parse_args()
    scrapes = options.scrapes or (20 if options.quick else 300)
    seconds = options.watch or (2 * ours.INTERVAL if options.quick else 60.0)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        libraries = build(Path(folder) / "nvml")
        command = rival.install(Path(folder) / "rival")
        versions = "" if command is None else rival.versions(command)
        for shape in (JUDGED,) if options.quick else SHAPES:
            place = Path(folder) / shape.name.replace(" ", "-")
            found[shape] = measure(place, libraries, shape, command, scrapes, seconds)
            show(shape, found[shape])
        if scrapes >= ENOUGH:
            judge(JUDGED, found[JUDGED])
        results.report(list(beside(found, scrapes, versions)), options)
        if command is not None:
            told = say(Path(folder) / "said", libraries, command, options.listen or (2 if options.quick else 20))
            results.report([row_of(name, one, versions) for name, one in told.items()], options)


def measure(
    folder: Path, libraries: Libraries, shape: Shape, command: Path | None, scrapes: int, seconds: float
) -> dict[str, Figures]:
    """Figures by exporter."""
    with ExitStack() as stack:
        busy = stack.enter_context(node(folder, libraries, shape))
        everything = ours.running(folder / "everything", busy, *EVERYTHING)
        alike = ours.running(folder / "alike", busy, f"--path.procfs={folder}", *ALIKE, owners=False)
        exporters = [
            ours.measurable(stack.enter_context(everything), OURS),
            ours.measurable(stack.enter_context(alike), SAME),
        ]
        if command is not None:
            pid, port = stack.enter_context(rival.running(command, folder, busy.fake.environment))
            exporters.append(Exporter(RIVAL, (pid,), port, rival.INTERVAL))
        watch(exporters, seconds)
        scrape_in_turns(exporters, scrapes)
        return {one.name: figures(one) for one in exporters}


def say(folder: Path, libraries: Libraries, command: Path, scrapes: int) -> dict[str, Told]:
    """What ours and nvitop-exporter tell of a job of steps of about two seconds."""
    with ExitStack() as stack:
        busy = stack.enter_context(node(folder, libraries, JUDGED))
        mine = ours.measurable(stack.enter_context(ours.running(folder / "ours", busy)), "ours")
        pid, port = stack.enter_context(rival.running(command, folder, busy.fake.environment))
        exporters = {"ours": mine, RIVAL: Exporter(RIVAL, (pid,), port, rival.INTERVAL)}
        return listened(exporters, {RIVAL: gauge("gpu_utilization_Percentage", "uuid")}, scrapes, PATTERN.duty)


def row_of(name: str, told: Told, versions: str) -> Row:
    what = (
        f"utilization of {JUDGED.name} that compute {100 * PATTERN.duty:g} % of each {PATTERN.period:g} s, as told by"
        f" {name} to {told.scrapes} scrapes each 15 s: how far from the truth"
    )
    return Row(what, f"{told.mean:.1f} points in the mean over GPUs, {told.worst:.1f} at most", "", versions)


def show(shape: Shape, found: dict[str, Figures]) -> None:
    columns = [list(rows(one)) for one in found.values()]
    lines = [(row[0][0], *(f"{value:.3f}" for _, value in row)) for row in zip(*columns, strict=True)]
    results.show(("", *found), lines, title=shape.name)


def beside(found: dict[Shape, dict[str, Figures]], scrapes: int, versions: str) -> Iterator[Row]:
    """A row a figure: by node, each exporter's."""
    names = ", ".join(dict.fromkeys(name for one in found.values() for name in one))
    told = {shape: {name: dict(rows(one)) for name, one in by_name.items()} for shape, by_name in found.items()}
    for what, decimals in KEPT.items():
        figure = "; ".join(
            f"{shape.name} {', '.join(f'{one[what]:,.{decimals}f}' for one in by_name.values())}"
            for shape, by_name in told.items()
        )
        yield Row(
            f"exporters on one NVML double at once, {scrapes} scrapes each ({names}): {what}", figure, "", versions
        )


def rows(one: Figures) -> Iterator[tuple[str, float]]:
    """What is printed of an exporter: name with unit, and figure."""
    yield "a page, kB", one.size / 1e3
    yield "series", one.series
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
    targets = [
        ("memory of both processes, everything on (PSS as if alone), MB", all_on.memory.alone, 64),
        ("background CPU, everything on, % of a core", all_on.background * 100, 1.5),
        ("p99 of a scrape, everything on, of its p50", all_on.p99 / all_on.p50, 2.0),
    ]
    if other is not None:
        targets += [
            ("CPU of a scrape with nvitop-exporter's families, of its", alike.cpu / other.cpu, 0.5),
            ("CPU of a scrape with everything on, of its", all_on.cpu / other.cpu, 1.0),
        ]
    results.show(
        ("target", "found", "at most", ""),
        [(what, f"{value:.2f}", most, "met" if value <= most else "NOT MET") for what, value, most in targets],
        title=f"targets on {shape.name}",
    )


if __name__ == "__main__":
    sys.exit(run_until_interrupted(main))
