"""One GPU's series of a scrape of the exporter, and what grew between two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@dataclass(frozen=True)
class Scrape:
    """What the exporter showed at `t`, in Unix seconds."""

    t: float
    series: Series

    def total(self, name: str, *, workload: str = "", **labels: str) -> float | None:
        """Of the series of that name with these labels, whatever their others are; None where there is none. `workload`
        is how the name of theirs begins.
        """
        found = [
            value
            for (each, of), value in self.series.items()
            if each == name and labels.items() <= dict(of).items() and dict(of).get("workload", "").startswith(workload)
        ]
        return sum(found) if found else None


def scrape_of(page: str, t: float, gpu: str) -> Scrape:
    """The GPU's part of a page, by its UUID."""
    return Scrape(
        t,
        {
            (sample.name, tuple(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.labels.get("gpu_uuid") == gpu
        },
    )


def grown(first: Scrape, last: Scrape) -> Callable[..., float | None]:
    """By how much a total grew between two scrapes: asked as `Scrape.total`, None where either has none."""

    def by(name: str, **labels: str) -> float | None:
        before, after = first.total(name, **labels), last.total(name, **labels)
        return None if before is None or after is None else after - before

    return by
