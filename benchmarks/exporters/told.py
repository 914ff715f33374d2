"""What exporters say of GPUs whose utilization is known, to a Prometheus that scrapes each 15 s."""

from __future__ import annotations

import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.exporters.measured import Exporter
from tests.exporter.published import samples

EVERY = 15.0

Reader = Callable[[str], Mapping[str, float]]
"""What a page says, by GPU."""


@dataclass(frozen=True)
class Told:
    """How far the utilization that was told of each GPU over the whole time was from the true one, in points."""

    scrapes: int
    mean: float
    worst: float


def gauge(name: str, label: str) -> Reader:
    """Percent, the newest value at each scrape."""
    return lambda page: {one.labels[label]: one.value for one in samples(page, name)}


def listened(
    exporters: Mapping[str, Exporter], gauges: Mapping[str, Reader], scrapes: int, truth: float
) -> dict[str, Told]:
    """All of them at the same times. Those with a gauge are averaged over the scrapes, as `avg_over_time` does; of the
    others busy and observed time grow from the first scrape to the last.
    """
    pages: dict[str, list[str]] = {name: [] for name in exporters}
    began = time.monotonic()
    for number in range(scrapes):
        time.sleep(max(0.0, began + number * EVERY - time.monotonic()))
        for name, one in exporters.items():
            with urllib.request.urlopen(f"http://127.0.0.1:{one.port}/metrics", timeout=30) as answer:
                page = answer.read().decode()
            if name in gauges and not gauges[name](page):
                sys.exit(f"{name}: its page tells the utilization of no GPU: is the metric called otherwise?")
            pages[name].append(page)
    found = {}
    for name, read in pages.items():
        told = averaged(read, gauges[name]) if name in gauges else grown(read)
        errors = [abs(value - 100 * truth) for value in told.values()]
        found[name] = Told(scrapes, fmean(errors), max(errors))
    return found


def averaged(pages: Sequence[str], gauge_of: Reader) -> dict[str, float]:
    values: defaultdict[str, list[float]] = defaultdict(list)
    for page in pages:
        for gpu, value in gauge_of(page).items():
            values[gpu].append(value)
    return {gpu: fmean(some) for gpu, some in values.items()}


def grown(pages: Sequence[str]) -> dict[str, float]:
    """Percent: what busy time grew by, of what observed time did."""
    busy, observed = (
        [{one.labels["gpu_uuid"]: one.value for one in samples(page, name)} for page in (pages[0], pages[-1])]
        for name in ("gpu_busy_seconds_total", "gpu_observed_seconds_total")
    )
    return {gpu: 100 * (busy[1][gpu] - busy[0][gpu]) / (observed[1][gpu] - observed[0][gpu]) for gpu in busy[0]}
