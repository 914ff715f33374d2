"""What a fleet costs at three sizes: each cell a figure, and whether it was measured there or is arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.cluster.measured import Beside, Pass
from benchmarks.exporters.measured import Figures
from benchmarks.load.engine import Disk, Scraped

DAY = 86_400


@dataclass(frozen=True)
class Measured:
    """All that one run found. By GPUs where that matters."""

    node: Figures
    scraped: Mapping[int, Scraped]
    disk: Disk
    beside: Mapping[int, Beside]
    canned: Mapping[int, tuple[Pass, ...]]


@dataclass(frozen=True)
class Cell:
    """A figure in words. `measured` at this very size, or computed from figures of others: how says `basis`."""

    figure: str
    measured: bool
    basis: str = ""

    def __str__(self) -> str:
        how = "measured" if self.measured else f"computed: {self.basis}" if self.basis else "computed"
        return f"{self.figure} ({how})"


def line(points: Mapping[float, float]) -> Callable[[float], float]:
    """The straight line through the two outermost points; one point: in proportion."""
    first, last = min(points), max(points)
    if first == last:
        return lambda x: points[first] * x / first
    slope = (points[last] - points[first]) / (last - first)
    return lambda x: points[first] + slope * (x - first)


def basis(sizes: Iterable[float]) -> str:
    """On what a figure lies that `line` gives, by the sizes that were measured."""
    first, last = min(known := list(sizes)), max(known)
    return f"in proportion to {first:,}" if first == last else f"on the line through {first:,} and {last:,}"


def cells(found: Measured, sizes: Sequence[int]) -> dict[str, list[Cell | None]]:
    """By what is told, one cell a size. What was measured at two sizes goes on as a straight line."""
    scraped, beside = found.scraped, found.beside
    series = {gpus: one.series for gpus, one in scraped.items()}
    rates = {gpus: one.rate for gpus, one in scraped.items()}

    def over(known: Mapping[int, float], show: Callable[[float], str]) -> list[Cell | None]:
        onward = line(known)
        return [
            Cell(show(known[gpus]), True) if gpus in known else Cell(show(onward(gpus)), False, basis(known))
            for gpus in sizes
        ]

    def days(rate: float) -> str:
        return f"{rate * DAY * found.disk.whole / 1e9:,.1f} GB"

    def last(passes: Sequence[Pass], name: str) -> float:
        # The first pass opens every incident there is: no other does.
        return float(median(getattr(one, name) for one in passes[1:]))

    rate = line(rates)
    ours = {gpus: last(one.passes, "cpu") for gpus, one in beside.items()}
    canned = {gpus: last(one, "cpu") for gpus, one in found.canned.items()}
    node = found.node
    return {
        "series a GPU": [
            Cell(f"{series[gpus] / gpus:.0f}", True)
            if gpus in series
            else Cell(f"{line(series)(gpus) / gpus:.0f}", False, basis(series))
            for gpus in sizes
        ],
        "series": over(series, "{:,.0f}".format),
        "samples a second": over(rates, "{:,.0f}".format),
        "on disk a day": [
            Cell(days(rates[gpus] if gpus in rates else rate(gpus)), False, f"{found.disk.whole:.2f} bytes a sample")
            for gpus in sizes
        ],
        "Prometheus: memory, without queries": over(
            {gpus: one.resident for gpus, one in scraped.items()}, lambda mb: f"{mb / 1000:,.2f} GB"
        ),
        "Prometheus: CPU of scraping": over(
            {gpus: one.cpu for gpus, one in scraped.items()}, lambda cpu: f"{100 * cpu:,.1f} % of a core"
        ),
        "Prometheus: CPU of the alerter's pass": over(
            {gpus: median(one.engine_cpu[1:]) for gpus, one in beside.items()}, "{:,.1f} s".format
        ),
        "exporter: CPU of each node, measured on one": [
            Cell(f"{node.minute / 60:.2%} of a core", False, "as on one") for _ in sizes
        ],
        "exporter: memory of each node, measured on one": [
            Cell(f"{node.memory.resident:.0f} MB", False, "as on one") for _ in sizes
        ],
        "alerter: CPU of a pass over Prometheus": over(ours, "{:,.2f} s".format),
        "alerter: CPU of a pass over canned answers": over(canned, "{:,.2f} s".format),
        "alerter: memory, at most, over canned answers": over(
            {gpus: max(one.peak for one in passes) for gpus, passes in found.canned.items()}, "{:,.0f} MB".format
        ),
        "alerter: how long a pass takes over Prometheus": [
            # No line leads to a size at which Prometheus needs most of the minute between two passes.
            Cell(f"{last(beside[gpus].passes, 'wall'):,.1f} s", True) if gpus in beside else None
            for gpus in sizes
        ],
    }
