"""A pass of the alerter over a cluster: beside a real Prometheus, and at sizes that only canned answers reach.

    python benchmarks/alerter.py                     # minutes; 2 GB of memory and 4 of disk
    python benchmarks/alerter.py --only canned

Prometheus: 10,000 GPUs and 2,500 jobs, backfilled. Ours should take no more CPU time than Prometheus does for it, and
at most 400 MB. Canned answers: 10, 10,000, 30,000 and 100,000 GPUs on one core: at most 15 s and 1.5 GB for the last,
the same queries at every size.

A pass that read nothing, or a first one that opened no incident, has no figures: the program ends there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import results
from benchmarks.cluster.measured import INTERVAL, Beside, Pass, over_canned, over_prometheus
from benchmarks.interruptible import run_until_interrupted
from benchmarks.results import Row, command_version, versions
from tests.prometheus.server import program

SIZES, QUICK_SIZES = (10, 10_000, 30_000, 100_000), (10, 1_000, 3_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    results.arguments(parser)
    parser.add_argument("--gpus", type=int, help="beside Prometheus (10,000)")
    parser.add_argument("--interval", type=int, default=INTERVAL, help=f"scrape interval in seconds ({INTERVAL})")
    parser.add_argument("--only", choices=("prometheus", "canned"))
    asked = parser.parse_args()
    gpus = asked.gpus or (500 if asked.quick else 10_000)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if asked.only != "canned":
            rows += beside(over_prometheus(Path(folder), gpus, asked.interval), asked.interval)
        if asked.only != "prometheus":
            sizes = QUICK_SIZES if asked.quick else SIZES
            rows += canned({size: over_canned(Path(folder), size, asked.interval) for size in sizes})
    results.report(rows, asked)


def beside(found: Beside, interval: int) -> list[Row]:
    show(f"{found.gpus:,} GPUs over a real Prometheus", found.passes)
    ratio = max(one.cpu / its for one, its in zip(found.passes, found.engine_cpu, strict=True))
    peak = max(one.peak for one in found.passes)
    what = (
        f"the alerter's pass over a real Prometheus of {found.gpus:,} GPUs and {found.jobs:,} jobs ({found.series:,}"
        f" series, {found.samples / 1e6:.1f} million samples, one each {interval} s): {len(found.passes)} passes"
    )
    figure = (
        f"ours {each(found.passes, 'cpu')} s of CPU and {peak:.0f} MB at most (target 400); Prometheus'"
        f" {listed(found.engine_cpu)} s of CPU and {listed(found.engine_resident, '.0f')} MB: ours / its at most"
        f" {ratio:.2f} (target 1); the whole pass {each(found.passes, 'wall')} s; {parts(found.passes)};"
        f" {found.passes[-1].queries} queries, {found.passes[-1].bytes / 1e6:.0f} MB of answers, unpacked"
    )
    known = f"{command_version(program('prometheus'))}, {versions('msgspec', 'numpy')}"
    return [Row(what, figure, versions=known)]


def canned(found: dict[int, tuple[Pass, ...]]) -> list[Row]:
    rows = []
    for gpus, passes in found.items():
        show(f"{gpus:,} GPUs over canned answers, one core", passes)
        target = " (targets at this size 15 s, 1,500 MB)" if gpus == SIZES[-1] else ""
        figure = (
            f"{each(passes, 'cpu')} s of CPU, at most {max(one.peak for one in passes):,.0f} MB{target};"
            f" {parts(passes)}; {passes[-1].queries} queries, {passes[-1].bytes / 1e6:.0f} MB of answers;"
            f" the whole pass {each(passes, 'wall')} s; {passes[-1].open:,} incidents open"
        )
        what = f"the alerter's pass over canned answers about {gpus:,} GPUs, on one core: {len(passes)} passes"
        rows.append(Row(what, figure, versions=versions("msgspec", "numpy")))
    return rows


def show(title: str, passes: Sequence[Pass]) -> None:
    header = ("pass, s", "CPU, s", "reading", "judging", "writing", "MB", "at most", "queries", "incidents")
    results.show(
        header,
        [
            (
                *(f"{value:.2f}" for value in (one.wall, one.cpu, one.reading, one.judging, one.writing)),
                *(f"{value:.0f}" for value in (one.resident, one.peak)),
                one.queries,
                one.open,
            )
            for one in passes
        ],
        title=title,
    )


def parts(passes: Sequence[Pass]) -> str:
    """Where ours goes."""
    return ", ".join(f"{part} {each(passes, part)}" for part in ("reading", "judging", "writing")) + " s"


def each(passes: Sequence[Pass], name: str) -> str:
    return listed([getattr(one, name) for one in passes])


def listed(values: Sequence[float], form: str = ".2f") -> str:
    return ", ".join(f"{value:{form}}" for value in values)


if __name__ == "__main__":
    sys.exit(run_until_interrupted(main))
