"""A fleet over fake exporters in simulated time, whose pages are parsed as any other."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dutycycle_alerter.model import Consumption, JobEvidence
from dutycycle_alerter.sources.exposition import SeriesKey, parse
from dutycycle_alerter.sources.fleet import Fleet
from dutycycle_alerter.store.counters import PointRow, SeriesRow
from tests.alerter.exporters import FakeExporter

T0 = 1_750_000_000.0
INTERVAL = 15.0
RESOLUTION = 60.0

Kept = tuple[list[SeriesRow], dict[SeriesKey, list[PointRow]]]
"""What the store has: each series, and its points."""


@dataclass
class Rig:
    """A fleet over some exporters, and the time."""

    exporters: Sequence[FakeExporter]
    fleet: Fleet = field(default_factory=lambda: Fleet(INTERVAL, RESOLUTION))
    now: float = T0
    silent: set[str] = field(default_factory=set)
    consumed: list[tuple[str, Consumption]] = field(default_factory=list)

    def scrape(self, times: int = 1, utilization: float | dict[str, float | None] | None = 0.5) -> None:
        """Let an interval pass and read every exporter that answers, again and again."""
        for _ in range(times):
            self.now += INTERVAL
            for exporter in self.exporters:
                exporter.run(INTERVAL, utilization)
                if exporter.node not in self.silent:
                    self.fleet.ingest(parse(exporter.page()), self.now)

    def run_pass(self, *, commits: bool = True) -> dict[str, JobEvidence]:
        """Read the evidence as a pass does."""
        evidence = self.fleet.jobs(self.now)
        if commits:
            self.consumed += [(item.job.id, part) for item in evidence for part in item.recent]
            self.fleet.committed(self.now)
        return {item.job.id: item for item in evidence}

    def busy(self, workload: str = "slurm/1") -> float:
        """Busy seconds of a job that passes have accounted for."""
        return sum(part.busy for job, part in self.consumed if job == workload)

    def restarted(self, kept: Kept, watermark: float) -> "Rig":
        """Another alerter that goes on from what the store has."""
        rows, points = kept
        fleet = Fleet(INTERVAL, RESOLUTION)
        fleet.restore([(row, points.get(row.key, [])) for row in rows], {}, watermark, self.now)
        return Rig(self.exporters, fleet, self.now, self.silent, self.consumed)


def rig(*nodes: str, **allocations: Sequence[int]) -> Rig:
    """Exporters of nodes (gpu01 by default); workload `slurm/1` has the given GPUs of the first."""
    exporters = [FakeExporter(node) for node in nodes or ("gpu01",)]
    made = Rig(exporters)
    for number, gpus in allocations.items():
        exporters[0].allocate(f"slurm/{number.removeprefix('job')}", *gpus, start=T0)
    return made


def stored(made: Rig, scrapes: int, utilization: float) -> Kept:
    """Scrape, and keep one point per resolution as the source does; passes run once a minute."""
    rows: dict[SeriesKey, SeriesRow] = {}
    points: dict[SeriesKey, list[PointRow]] = {}
    saved = 0.0
    for number in range(scrapes):
        made.scrape(1, utilization)
        if made.now - saved >= RESOLUTION:
            series, hosts = made.fleet.unsaved()
            for row, point in series:
                rows[row.key] = row
                points.setdefault(row.key, []).append(point)
            made.fleet.saved(series, hosts)
            saved = made.now
        if number % 4 == 3:
            made.run_pass()
    return list(rows.values()), points
