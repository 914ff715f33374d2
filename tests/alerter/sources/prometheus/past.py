"""What fake exporters said in the past, as samples that a real engine can begin with; and the truth about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dutycycle_alerter.sources.exposition import parse
from dutycycle_alerter.sources.fleet import Fleet
from tests.alerter.exporters import FakeExporter

START = 1_700_000_000.0 // 3600 * 3600
"""A full hour."""


@dataclass
class Past:
    """Scrapes of fake exporters, one each `interval` seconds from `START` on. `fleet` has read the same pages since
    `watched_from`.

    `relabelled` are labels that the engine puts on an exporter's series, by node.
    """

    interval: float = 60.0
    watched_from: float = START
    now: float = START
    fleet: Fleet = field(init=False)
    relabelled: dict[str, list[str]] = field(default_factory=dict)
    _samples: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fleet = Fleet(interval=self.interval, resolution=self.interval)

    def scrape(self, *exporters: FakeExporter) -> None:
        """All of these answer now."""
        for exporter in exporters:
            page = exporter.page()
            if self.now >= self.watched_from:
                self.fleet.ingest(parse(page), self.now)
            for line in page.splitlines():
                series, _, value = line.rpartition(" ")
                for labels in self.relabelled.get(exporter.node, [""]):
                    name = series.replace("{", "{" + labels, 1) if labels else series
                    self._samples.setdefault(name, []).append(f"{value} {self.now!r}")

    def run(
        self,
        seconds: float,
        work: Callable[[FakeExporter, float], None],
        *exporters: FakeExporter,
        silent: Mapping[str, object] | None = None,
    ) -> None:
        """Let time pass; of those that are silent nothing arrives."""
        for _ in range(round(seconds / self.interval)):
            self.now += self.interval
            for exporter in exporters:
                work(exporter, self.interval)
            self.scrape(*(exporter for exporter in exporters if exporter.node not in (silent or {})))

    def openmetrics(self) -> str:
        """All of it, as OpenMetrics."""
        lines = (f"{series} {sample}" for series in sorted(self._samples) for sample in self._samples[series])
        return "\n".join([*lines, "# EOF"]) + "\n"
