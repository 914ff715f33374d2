"""Whether exporters are scraped as often as `prometheus.scrape_interval` says, by the samples that the engine has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dutycycle_alerter.scale import write_duration
from dutycycle_alerter.sources.prometheus.identity import Answers
from dutycycle_alerter.sources.prometheus.scope import COUNTED

_SLOW, _FAST = 0.8, 2.0
"""Samples, as a part of those that were to be expected, from which on a scrape interval is another one."""


@dataclass(slots=True)
class _Odd:
    """An exporter with another number of samples than was to be expected, since when, and how many in how many passes.

    An outage leaves the counted window as long after its end as that is: what lasts longer is no outage.
    """

    since: float
    passes: int = 0
    samples: float = 0.0


class Pace:
    """Exporters, by node. `interval` is the configured scrape interval in wall seconds."""

    def __init__(self, interval: float, time_scale: float) -> None:
        self._interval = interval
        self._time_scale = time_scale
        self._slow: dict[str, _Odd] = {}
        self._fast: dict[str, _Odd] = {}

    def update(self, answers: Answers, at: float) -> Sequence[str]:
        """Take the answers of a pass; what is to be said. Exporters that cannot be seen now stay out of it."""
        counted = answers.highest("scrapes")
        counts = {key[0]: counted.get(key, 0.0) for key in answers.highest("seen_at")}
        slow = {node: count for node, count in counts.items() if count <= _SLOW * COUNTED}
        fast = {node: count for node, count in counts.items() if count >= _FAST * COUNTED}
        self._slow, self._fast = self._remembered(self._slow, slow, at), self._remembered(self._fast, fast, at)
        return [said for odd in (self._slow, self._fast) if (said := self._said(odd))]

    def _remembered(self, before: dict[str, _Odd], counts: dict[str, float], at: float) -> dict[str, _Odd]:
        found = {node: before.get(node) or _Odd(at) for node in counts}
        for node, odd in found.items():
            if at - odd.since >= COUNTED * self._interval:
                odd.passes += 1
                odd.samples += counts[node]
        return found

    def _said(self, exporters: dict[str, _Odd]) -> str:
        lasting = [odd for odd in exporters.values() if odd.passes]
        if not lasting:
            return ""
        samples, window = sum(odd.samples for odd in lasting), COUNTED * self._interval
        if samples:
            often = f"about every {self._written(window * sum(odd.passes for odd in lasting) / samples)}"
        else:
            often = f"less than every {self._written(window)}"
        exporters_are = "1 exporter is" if len(lasting) == 1 else f"{len(lasting)} exporters are"
        return (
            f"{exporters_are} scraped {often}, not every {write_duration(round(self._interval * self._time_scale, 3))} "
            "as prometheus.scrape_interval says: set it to what the engine's scrape job has"
        )

    def _written(self, seconds: float) -> str:
        shown = seconds * self._time_scale
        return f"{shown:.0f}s" if shown >= 9.95 else f"{shown:.1f}s"
