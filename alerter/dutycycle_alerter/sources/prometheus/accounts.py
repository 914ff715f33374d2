"""What jobs consumed between two instants, from their counters' samples: exactly once, whatever happens in between.

Time is cut at multiples of the scrape interval, and a job is charged the difference of what its counters last said
before the two ends of a span. So spans add up, whoever asks for them and when: a pass that was not committed is simply
asked for again. That holds for samples that the engine has by the time they are asked for, `LAG` scrape intervals after
their span. What a later one adds is charged with the next step of its counter, unless that has none, or the alerter
that evaluates changes in between: then it is lost. What an engine loses that was charged already is not charged again
(`charging`). A counter that is lower than before was reset, and counts on from there. What a counter holds at its
first sample is nobody's: the exporter shows a new one at 0 for two scrapes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil, floor, inf
from operator import itemgetter

import numpy as np

from dutycycle_alerter.model import Consumption, gpu_key
from dutycycle_alerter.promql.answers import Keys, Vector
from dutycycle_alerter.sources.prometheus.charging import Steps
from dutycycle_alerter.sources.prometheus.identity import JobKey
from dutycycle_alerter.sources.prometheus.selectors import Query
from dutycycle_alerter.usage import idle_seconds, known_sum, unused_seconds

LAG = 2
"""Scrape intervals until a sample of an engine that scrapes by itself is there: it carries the time at which its scrape
began. Later ones, such as those of a slow remote write, are not waited for.
"""
SPAN = 16
"""Scrape intervals that are asked for at once."""
SPANS = 15
"""Spans that a pass catches up at most: an hour, at one scrape in 15 s."""
LONGEST = 7 * 86400.0
"""Wall seconds of the past that are caught up at most."""
_AHEAD = 4
"""Scrape intervals by which the clock may be behind what is accounted for before that is worth a word."""

Where = tuple[str, str, str, int]
"""Cluster, workload, model, number of the hour."""
_Gpu = tuple[str, str, str]
"""Node, UUID, MIG instance."""


@dataclass(slots=True)
class Spans:
    """What is to be accounted for: consecutive instants, each pair a span. With less than two there is nothing."""

    instants: list[float]

    @property
    def until(self) -> float:
        """Up to when consumption is accounted for once these spans are."""
        return self.instants[-1]

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return zip(self.instants, self.instants[1:], strict=False)


def spans(since: float | None, at: float, interval: float) -> Spans:
    """The spans of a pass at `at`, after consumption was accounted for until `since` (None: never)."""
    newest = floor(at / interval - LAG) * interval
    if since is None:
        return Spans([newest])
    start = max(ceil(since / interval - 1e-6) * interval, newest - LONGEST)
    if start >= newest:
        # Nothing new, or a clock that was set back: what was accounted for stays so.
        return Spans([since])
    instants = [start]
    while instants[-1] < newest and len(instants) <= SPANS:
        instants.append(min(instants[-1] + SPAN * interval, newest))
    return Spans(instants)


def ahead(since: float | None, at: float, interval: float) -> str:
    """What is to be said where consumption was accounted for until a time that is still to come; else empty."""
    if since is None or since - at < _AHEAD * interval:
        return ""
    until = datetime.fromtimestamp(since, UTC)
    return (
        f"usage counts as accounted for until {until:%Y-%m-%d %H:%M %Z}, which is to come: "
        "a clock was ahead. None is counted until then; to count from now on, stop the alerter and delete the row "
        "accounted_until from the table meta of its database"
    )


@dataclass(slots=True)
class Growth:
    """What was consumed, by job, model and hour; `grown_at` is when a job was last seen to hold a GPU, and `since` and
    `until` are the ends of all spans that were taken.
    """

    interval: float
    hour: float
    used: defaultdict[tuple[Where, _Gpu], dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    owners: dict[JobKey, Mapping[str, str]] = field(default_factory=dict)
    grown_at: dict[JobKey, float] = field(default_factory=dict)
    since: float = inf
    until: float = -inf

    def own(self, query: Query, answer: Vector) -> None:
        """Take the labels of who consumed."""
        for values in answer.keys:
            self.owners[values[0], values[1]] = dict(zip(query.labels, values, strict=True))

    def add(self, name: str, keys: Keys, start: float, end: float, steps: Steps) -> None:
        """Take by how much series of these keys grew over (start, end]."""
        self._cover(start, end)
        if len(steps.growth):
            self._charge(name, keys, steps)

    def take(self, name: str, vector: Vector, start: float, end: float) -> None:
        """Take what was consumed in a span, where the engine can add it up itself. It belongs to one hour: a span is
        minutes.
        """
        self._cover(start, end)
        hour = floor((start + end) / 2 / self.hour)
        for (cluster, *gpu, workload, model), value in zip(vector.keys, vector.values.tolist(), strict=True):
            used = self.used[(cluster, workload, model, hour), _gpu(gpu)]
            used[name] = used.get(name, 0.0) + value

    def merge(self, other: Growth) -> None:
        """Take what another span was found to have, which nothing more is added to."""
        self._cover(other.since, other.until)
        self.owners |= other.owners
        for job, t in other.grown_at.items():
            self.grown_at[job] = max(t, self.grown_at.get(job, 0.0))
        if not self.used:
            # Mostly there is one span.
            self.used = other.used
            return
        for place, amounts in other.used.items():
            used = self.used[place]
            for name, amount in amounts.items():
                used[name] = used.get(name, 0.0) + amount

    def consumption(self) -> dict[JobKey, list[Consumption]]:
        """By job, in the order of time."""
        found: defaultdict[JobKey, list[Consumption]] = defaultdict(list)
        by_gpu: defaultdict[Where, dict[_Gpu, dict[str, float]]] = defaultdict(dict)
        for (where, gpu), used in self.used.items():
            if any(used.values()):
                by_gpu[where][gpu] = used
        for (cluster, workload, model, hour), gpus in sorted(by_gpu.items(), key=itemgetter(0)):
            parts = gpus.values()
            part = Consumption(
                model=model,
                allocated=sum(used.get("allocated", 0.0) for used in parts),
                observed=sum(used.get("observed", 0.0) for used in parts),
                busy=sum(used.get("busy", 0.0) for used in parts),
                energy=known_sum(used.get("energy") for used in parts),
                at=(hour + 0.5) * self.hour,
                # A counter that did not grow is not in it.
                idle=known_sum(idle_seconds(used.get("observed"), used.get("busy", 0.0)) for used in parts),
                since=max(self.since, hour * self.hour),
                until=min(self.until, (hour + 1) * self.hour),
                by_gpu={
                    gpu_key(*gpu): unused_seconds(used.get("observed"), used.get("busy")) for gpu, used in gpus.items()
                },
            )
            found[cluster, workload].append(part)
        return found

    def end_of(self, job: JobKey, seen: float) -> float:
        """When a job ended that was last `seen` to hold GPUs: when it last grew, where that is accounted for."""
        return seen if self.until < seen else self.grown_at.get(job, seen)

    def _cover(self, start: float, end: float) -> None:
        self.since, self.until = min(self.since, start), max(self.until, end)

    def _charge(self, name: str, keys: Keys, steps: Steps) -> None:
        series, when, growth = steps.series, steps.when, steps.growth
        # What grew until a full hour belongs to the hour before.
        hours = np.floor((when - self.interval / 2) / self.hour).astype(np.int64)
        first = int(hours.min())
        width = int(hours.max()) - first + 1
        totals = np.bincount(series * width + (hours - first), weights=growth, minlength=len(keys) * width)
        for place in np.flatnonzero(totals).tolist():
            cluster, *gpu, workload, model = keys[place // width]
            used = self.used[(cluster, workload, model, first + place % width), _gpu(gpu)]
            used[name] = used.get(name, 0.0) + float(totals[place])
        if name == "allocated":
            newest = np.zeros(len(keys))
            np.maximum.at(newest, series[growth > 0], when[growth > 0])
            for place in np.flatnonzero(newest).tolist():
                job = keys[place][0], keys[place][4]
                self.grown_at[job] = max(float(newest[place]), self.grown_at.get(job, 0.0))


def _gpu(labels: list[str]) -> _Gpu:
    node, uuid, mig = labels
    return node, uuid, mig
