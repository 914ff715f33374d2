"""What jobs consumed between two instants, from their counters' samples: exactly once, whatever happens in between.

Time is cut at multiples of the scrape interval, and a job is charged the difference of what its counters last said
before the two ends of a span. So spans add up, whoever asks for them and when: a pass that was not committed is simply
asked for again. That holds for samples that the engine has by the time they are asked for, `LAG` scrape intervals after
their span. What a sample adds that arrives later, but before the next span is asked for, is lost; nothing is ever
counted twice. A counter that is lower than before was reset, and counts on from there. What a counter holds at its
first sample is nobody's: the exporter shows a new one at 0 for two scrapes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil, floor, inf
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from dutycycle_alerter.model import Consumption
from dutycycle_alerter.promql.answers import Matrix, Vector
from dutycycle_alerter.sources.prometheus.identity import JobKey, Key
from dutycycle_alerter.sources.prometheus.selectors import Query
from dutycycle_alerter.usage import idle_seconds, known_sum

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
_PARKED = 86400.0
"""Wall seconds for which the counters of an allocation that has not ended are remembered."""
_ENDED = 1800.0
"""Wall seconds for which all others are: on a busy cluster they are the most by far, and few of them come back."""

Where = tuple[str, str, str, int]
"""Cluster, workload, model, number of the hour."""
_Gpu = tuple[str, str, str]
"""Node, UUID, MIG instance."""
_Counter = tuple[str, tuple[str, ...]]
"""What it counts, and the labels that it is told apart by (`selectors.ACCOUNT`)."""


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

    def add(self, name: str, matrix: Matrix, start: float, end: float, parked: Parked) -> None:
        """Take one counter's samples over (start, end]; those at `start` are where it counts from."""
        self._cover(start, end)
        counts = np.diff(matrix.offsets)
        series = np.repeat(np.arange(len(counts)), counts)
        usable = np.isfinite(matrix.values) & (matrix.times > start - self.interval / 2)
        series, times, values = series[usable], matrix.times[usable], matrix.values[usable]
        if not len(times):
            return
        same = series[1:] == series[:-1]
        steps = np.diff(values)
        grown = np.where(steps < 0, values[1:], steps)
        where, when, growth = series[1:][same], times[1:][same], grown[same]
        first = np.flatnonzero(np.concatenate(([True], ~same)))
        late = first[times[first] > start + self.interval / 2]
        last = np.flatnonzero(np.concatenate((~same, [True])))
        back = [(i, since) for i in late.tolist() if (since := parked.take(name, matrix.keys[series[i]])) is not None]
        if back:
            places = np.array([i for i, _ in back])
            before = np.array([value for _, value in back])
            where = np.concatenate((where, series[places]))
            when = np.concatenate((when, times[places]))
            more = values[places] - before
            growth = np.concatenate((growth, np.where(more < 0, values[places], more)))
        self._charge(name, matrix.keys, where, when, growth)
        for i in last[times[last] < end - self.interval / 2].tolist():
            parked.leave(name, matrix.keys[series[i]], float(values[i]), float(times[i]))

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
        by_gpu: defaultdict[Where, list[dict[str, float]]] = defaultdict(list)
        for (where, _), used in self.used.items():
            if any(used.values()):
                by_gpu[where].append(used)
        for (cluster, workload, model, hour), parts in sorted(by_gpu.items(), key=itemgetter(0)):
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
            )
            found[cluster, workload].append(part)
        return found

    def end_of(self, job: JobKey, seen: float) -> float:
        """When a job ended that was last `seen` to hold GPUs: when it last grew, where that is accounted for."""
        return seen if self.until < seen else self.grown_at.get(job, seen)

    def _cover(self, start: float, end: float) -> None:
        self.since, self.until = min(self.since, start), max(self.until, end)

    def _charge(
        self,
        name: str,
        keys: list[tuple[str, ...]],
        series: NDArray[np.int64],
        when: NDArray[np.float64],
        growth: NDArray[np.float64],
    ) -> None:
        # What grew until a full hour belongs to the hour before.
        hours = np.floor((when - self.interval / 2) / self.hour).astype(np.int64)
        first = int(hours.min()) if len(hours) else 0
        width = int(hours.max()) - first + 1 if len(hours) else 1
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


class Parked:
    """Counters that are not there any more, with what they last said: one that comes back counts on from there.

    What a pass or a span changes that may come to nothing stands `apart` from it until it is kept.
    """

    def __init__(self, under: Parked | None = None) -> None:
        self._under = under
        self._values: dict[_Counter, tuple[float, float] | None] = {}

    def leave(self, name: str, key: tuple[str, ...], value: float, t: float) -> None:
        """It was last seen at `t`."""
        self._values[name, key] = value, t

    def take(self, name: str, key: tuple[str, ...]) -> float | None:
        """What it was; None for one that was never seen."""
        found = self._find((name, key))
        if found is None:
            return None
        self._put((name, key), None)
        return found[0]

    def apart(self) -> Parked:
        """The same, whose changes are its own until they are kept. Nothing is copied."""
        return Parked(self)

    def keep(self) -> None:
        """Hand the changes to what this stands apart from."""
        if self._under is not None:
            for counter, held in self._values.items():
                self._under._put(counter, held)  # noqa: SLF001 - its own kind

    def forget(self, at: float, alive: Container[Key]) -> None:
        """Let go of those that have not come back until `at` for a day, or where their allocation is not among those
        that are `alive`, for half an hour. One that comes back even then loses what it grew meanwhile.
        """
        held = self._values.items()
        gone = [counter for counter, value in held if value is None or value[1] < at - _kept(counter, alive)]
        for counter in gone:
            del self._values[counter]

    def _find(self, counter: _Counter) -> tuple[float, float] | None:
        if counter in self._values or self._under is None:
            return self._values.get(counter)
        return self._under._find(counter)  # noqa: SLF001 - its own kind

    def _put(self, counter: _Counter, held: tuple[float, float] | None) -> None:
        if held is None and self._under is None:
            self._values.pop(counter, None)
        else:
            self._values[counter] = held


def _kept(counter: _Counter, alive: Container[Key]) -> float:
    _, (_, node, uuid, mig, workload, _) = counter
    return _PARKED if (node, uuid, mig, workload) in alive else _ENDED
