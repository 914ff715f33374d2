"""What each part found, as rows for RESULTS.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.cluster.measured import INTERVAL as BACKFILLED
from benchmarks.cluster.measured import Beside, Pass
from benchmarks.exporters.measured import Figures
from benchmarks.load.engine import INTERVAL, SCALE, Disk, Scraped
from benchmarks.load.pages import NODE
from benchmarks.load.table import Cell
from benchmarks.results import Row, command_version, versions
from tests.prometheus.server import program


def of_node(found: Figures) -> Row:
    what = f"the exporter with its defaults on a node of {NODE.name} (NVML double), read each 5 s: CPU and memory"
    figure = (
        f"{found.background:.2%} of a core at rest, {found.minute / 60:.2%} scraped each {INTERVAL:g} s"
        f" ({1000 * found.cpu_packed:.1f} ms of CPU a scrape with gzip); {found.memory.resident:.0f} MB resident in two"
        f" processes, PSS as if alone {found.memory.alone:.0f} MB"
    )
    return Row(what, figure)


def of_head(found: Sequence[Scraped], watched: float) -> Row:
    told = [
        f"{one.nodes:,} nodes: {one.series:,.0f} series, {one.rate:,.0f} samples a second, {one.resident:,.0f} MB,"
        f" {one.cpu:.1%} of a core"
        for one in found
    ]
    first, last = found[0], found[-1]
    each = 1000 * (last.resident - first.resident) / (last.series - first.series)
    what = f"Prometheus while it scrapes nodes of {NODE.name} each {INTERVAL:g} s, over {watched:g} s after two scrapes"
    return Row(what, f"{'; '.join(told)}: {each:.1f} kB a series", versions=_engine())


def of_disk(found: Disk) -> Row:
    what = (
        f"bytes a sample in Prometheus' blocks, a node of {NODE.name} scraped as in production, {SCALE:g} times faster"
    )
    figure = (
        f"{found.whole:.2f} with the index, {found.chunks:.2f} in chunks alone"
        f" ({found.samples:,} samples in {found.blocks} full blocks)"
    )
    return Row(what, figure, versions=_engine())


def of_passes(beside: Mapping[int, Beside], canned: Mapping[int, tuple[Pass, ...]]) -> list[Row]:
    known = versions("msgspec", "numpy")
    rows = []
    for gpus, one in beside.items():
        passes = "; ".join(
            f"{ours.wall:.1f} s, ours {ours.cpu:.2f} s of CPU, Prometheus' {its:.2f} s"
            for ours, its in zip(one.passes, one.engine_cpu, strict=True)
        )
        peak = max(ours.peak for ours in one.passes)
        what = f"passes over a real Prometheus of {gpus:,} GPUs, {one.jobs:,} jobs, a sample each {BACKFILLED} s"
        rows.append(Row(what, f"{passes}; at most {peak:.0f} MB of ours", versions=f"{_engine()}, {known}"))
    told = [
        f"{gpus:,}: {', '.join(f'{one.cpu:.2f}' for one in passes)} s of CPU, at most"
        f" {max(one.peak for one in passes):,.0f} MB"
        for gpus, passes in canned.items()
    ]
    rows.append(Row("passes over canned answers, on one core, by GPUs", "; ".join(told), versions=known))
    return rows


def of_table(table: Mapping[str, Sequence[Cell | None]], sizes: Sequence[int]) -> list[Row]:
    fleet = ", ".join(f"{gpus:,}" for gpus in sizes)
    return [Row(f"a fleet of {fleet} GPUs: {what}", _listed(cells)) for what, cells in table.items()]


def _listed(cells: Sequence[Cell | None]) -> str:
    return "; ".join("not measured" if cell is None else str(cell) for cell in cells)


def _engine() -> str:
    return command_version(program("prometheus"))
