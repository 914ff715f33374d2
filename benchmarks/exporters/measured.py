"""Exporters side by side on one node: watched at rest together, then scraped in turns: noise hits them alike."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from statistics import median, quantiles

from benchmarks.exporters.cost import Memory, Scrape, cpu_seconds, memory, scrape


@dataclass
class Exporter:
    """One that runs. `pids` are its processes, first the one that answers; it reads NVML every `interval` seconds."""

    name: str
    pids: tuple[int, ...]
    port: int
    interval: float
    at_rest: list[float] = field(default_factory=list)
    """CPU seconds per second of each process without scrapes."""
    plain: list[Scrape] = field(default_factory=list)
    packed: list[Scrape] = field(default_factory=list)
    memory: Memory | None = None


@dataclass(frozen=True)
class Figures:
    """What is compared. Times in seconds, memory in MB, sizes in bytes."""

    p50: float
    p99: float
    cpu: float
    """Of a scrape, without what the process does in the background meanwhile."""
    cpu_spread: float
    """p99 / p50 of the same, which waiting for a processor does not widen as it does the time of a scrape."""
    cpu_packed: float
    """The same with gzip, which Prometheus asks for."""
    size: int
    series: int
    background: float
    """CPU seconds per second, all processes, without scrapes."""
    reading: float
    """CPU seconds of one reading of NVML and all that is made of it, in the background."""
    minute: float
    """CPU seconds in a minute with a scrape every 15 s, all processes."""
    memory: Memory
    processes: tuple[float, ...]
    """The background of each process: CPU seconds per second."""


def watch(exporters: Sequence[Exporter], seconds: float) -> None:
    """All of them at rest, at the same time."""
    before, began = [[cpu_seconds(pid) for pid in one.pids] for one in exporters], time.monotonic()
    time.sleep(seconds)
    for one, cpu in zip(exporters, before, strict=True):
        elapsed = time.monotonic() - began
        one.at_rest = [(cpu_seconds(pid) - was) / elapsed for pid, was in zip(one.pids, cpu, strict=True)]


def scrape_in_turns(exporters: Sequence[Exporter], times: int) -> None:
    """Each of them so often, plain and with gzip; and what memory they have after that.

    By a process of its own: in this one the double's time passes, for which a scrape would have to wait.
    """
    targets = [(one.port, one.pids[0]) for one in exporters]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as scraper:
        plain, packed = scraper.submit(_scrape_in_turns, targets, times).result()
    for one, mine, small in zip(exporters, plain, packed, strict=True):
        one.plain, one.packed = mine, small
        one.memory = memory(one.pids)


def _scrape_in_turns(targets: Sequence[tuple[int, int]], times: int) -> tuple[list[list[Scrape]], list[list[Scrape]]]:
    plain: list[list[Scrape]] = [[] for _ in targets]
    packed: list[list[Scrape]] = [[] for _ in targets]
    for turn in range(times):
        for place in range(len(targets)):
            which = (turn + place) % len(targets)
            plain[which].append(scrape(*targets[which]))
            packed[which].append(scrape(*targets[which], packed=True))
    return plain, packed


def figures(one: Exporter) -> Figures:
    times, used = (
        quantiles(values, n=100, method="inclusive")
        for values in ([scrape.seconds for scrape in one.plain], [scrape.cpu for scrape in one.plain])
    )
    cpu, packed = (_without_background(scrapes, one.at_rest[0]) for scrapes in (one.plain, one.packed))
    background = sum(one.at_rest)
    assert one.memory is not None
    return Figures(
        p50=times[49],
        p99=times[98],
        cpu=cpu,
        cpu_spread=used[98] / used[49],
        cpu_packed=packed,
        size=int(median(scrape.size for scrape in one.plain)),
        series=int(median(scrape.series for scrape in one.plain)),
        background=background,
        reading=background * one.interval,
        minute=60 * background + 4 * packed,
        memory=one.memory,
        processes=tuple(one.at_rest),
    )


def _without_background(scrapes: Sequence[Scrape], at_rest: float) -> float:
    """Mean CPU seconds of a scrape."""
    return sum(scrape.cpu - at_rest * scrape.window for scrape in scrapes) / len(scrapes)
