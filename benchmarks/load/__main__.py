"""What a fleet costs at 1,000, 10,000 and 100,000 GPUs: series, samples, disk, Prometheus, exporter, alerter.

    python -m benchmarks.load                  # half an hour, 6 GB of memory and 8 of disk
    python -m benchmarks.load --only series    # one part alone, without the table
    python -m benchmarks.load --quick          # that it works, at a hundredth of the sizes

series    counted on the real exporter's page, on nodes of the NVML double: of devices, of owners, of the node.
disk      a real Prometheus scrapes that exporter, both 30 times as fast: each of its blocks has as many samples as two
          hours have at 15 s, but for the first, which ends early and does not count. Bytes of the blocks by sample,
          index and all. It fills while the other parts are measured.
node      the exporter at rest and scraped each 15 s: CPU and memory of both processes.
head      a real Prometheus scrapes the same page as that of 125 and of 1,250 nodes of 8 GPUs each 15 s: its memory and
          CPU, for three minutes after two scrapes.
alerter   passes over a real Prometheus that was backfilled with 1,000 and 10,000 GPUs, and over canned answers about
          all three. All ends where a pass read nothing, or the first one opened no incident: it has no figures.

The table's cells say what was measured at that size; others are arithmetic, and say on what: memory and CPU at 100,000
GPUs lie on the straight line through two sizes. Needs gcc and Prometheus (exits with 77 where it cannot run). Nothing
here asks how fast the machine is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import results
from benchmarks.cluster.measured import over_canned, over_prometheus
from benchmarks.exits import NOT_HERE
from benchmarks.exporters import ours
from benchmarks.exporters.measured import Figures, figures, scrape_in_turns, watch
from benchmarks.exporters.nodes import Shape, node
from benchmarks.interruptible import run_until_interrupted
from benchmarks.load import pages, rows
from benchmarks.load.engine import SCRAPES, filling, scraping
from benchmarks.load.pages import NODE, SHAPES
from benchmarks.load.stage import missing
from benchmarks.load.table import Measured, cells
from benchmarks.results import Row
from tests.fakes.nvml.compiler import Libraries, build

PARTS = ("series", "disk", "node", "head", "alerter")


@dataclass(frozen=True)
class Effort:
    """How much is done: GPUs of the table, the last of which no Prometheus here can hold; scrapes, seconds."""

    sizes: tuple[int, ...] = (1_000, 10_000, 100_000)
    scrapes: int = SCRAPES
    watched: float = 180.0
    rounds: int = 100
    shapes: tuple[Shape, ...] = SHAPES


QUICK = Effort((80, 160, 1_600), 20, 10.0, 10, (NODE,))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    results.arguments(parser)
    parser.add_argument("--only", choices=PARTS, help="one part alone, without the table")
    options = parser.parse_args()
    if lacking := missing():
        print(f"cannot run here without {' and '.join(lacking)}", file=sys.stderr)
        sys.exit(NOT_HERE)
    with tempfile.TemporaryDirectory() as name:
        # Each part as soon as it is measured: what comes later may fail.
        measure(
            Path(name), QUICK if options.quick else Effort(), options.only, partial(results.report, options=options)
        )


def measure(folder: Path, effort: Effort, only: str | None, tell: Callable[[list[Row]], None]) -> None:
    """One part, or all of them and the table."""
    libraries = build(folder / "nvml")
    held = effort.sizes[:-1]
    with ExitStack() as stack:
        if only in (None, "disk"):
            filled = stack.enter_context(filling(folder / "disk", libraries, effort.scrapes))
        if begins("series", only):
            counted = pages.counted(folder / "series", libraries, effort.shapes)
            pages.show(counted)
            tell([pages.row(counted)])
        if begins("node", only):
            alone = of_a_node(folder / "alone", libraries, effort)
            tell([rows.of_node(alone)])
        if begins("head", only):
            nodes = (0, *(gpus // NODE.gpus for gpus in held))
            scraped = tuple(scraping(folder / "head", libraries, nodes, effort.watched))
            tell([rows.of_head(scraped, effort.watched)])
        if begins("alerter", only):
            beside = {gpus: over_prometheus(folder, gpus) for gpus in held}
            canned = {gpus: over_canned(folder, gpus) for gpus in effort.sizes}
            tell(rows.of_passes(beside, canned))
        if begins("disk", only):
            disk = filled()
            tell([rows.of_disk(disk)])
    if only is None:
        by_gpus = {one.nodes * NODE.gpus: one for one in scraped if one.nodes}
        table = cells(Measured(alone, by_gpus, disk, beside, canned), effort.sizes)
        results.show(
            ("", *(f"{gpus:,} GPUs, {gpus // NODE.gpus:,} nodes" for gpus in effort.sizes)),
            [(what, *found) for what, found in table.items()],
        )
        tell(rows.of_table(table, effort.sizes))


def begins(part: str, only: str | None) -> bool:
    """Whether the part is wanted; says so where somebody watches."""
    wanted = only in (None, part)
    if wanted and sys.stderr.isatty():
        print(f"{time.strftime('%H:%M:%S')} {part} ...", file=sys.stderr)
    return wanted


def of_a_node(folder: Path, libraries: Libraries, effort: Effort) -> Figures:
    """The exporter with its defaults."""
    with node(folder, libraries, NODE) as busy, ours.running(folder / "exporter", busy) as daemon:
        exporter = ours.measurable(daemon, "ours")
        watch([exporter], effort.watched)
        scrape_in_turns([exporter], effort.rounds)
        return figures(exporter)


if __name__ == "__main__":
    sys.exit(run_until_interrupted(main))
