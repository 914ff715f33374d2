"""What jobs consumed between two instants, from their counters' samples: exactly once, whatever happens in between.

Time is cut at multiples of the scrape interval, and a job is charged the difference of what its counters last said
before the two ends of a span. So spans add up, whoever asks for them and when: a pass that was not committed is simply
asked for again. That holds for samples that the engine has by the time they are asked for, `LAG` scrape intervals after
their span. What a later one adds is charged with the next step of its counter, unless that has none, or the alerter
that evaluates changes in between: then it is lost. What an engine loses that was charged already is not charged again
(`last_values`). A counter that is lower than before was reset, and counts on from there. What a counter holds at its
first sample is nobody's: the exporter shows a new one at 0 for two scrapes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import ceil, floor, inf
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from dutycycle_alerter.model import Consumption
from dutycycle_alerter.promql.answers import Keys, Matrix, Vector
from dutycycle_alerter.sources.prometheus.identity import JobKey
from dutycycle_alerter.sources.prometheus.last_values import Doubt, Ids, Numbers, SpanEnd, ids_of, joined
from dutycycle_alerter.sources.prometheus.queries import KEPT
from dutycycle_alerter.sources.prometheus.remembered import Remembered
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
    slopes: dict[int, float] = field(default_factory=dict)
    """Where there is doubt, by how much the allocated seconds of a series (by id) grow in a second."""
    _ends: dict[str, SpanEnd] = field(default_factory=dict)
    _flat: list[Ids] = field(default_factory=list)
    """Of the span that is taken, what is doubtful still."""
    _reset: list[Ids] = field(default_factory=list)
    """What began anew before its first sample."""
    _shares: list[tuple[Ids, Numbers, Numbers]] = field(default_factory=list)
    """And of which series, at what time, but a share of a step is charged."""
    _numbered: tuple[Keys, Ids] | None = None

    def own(self, query: Query, answer: Vector) -> None:
        """Take the labels of who consumed."""
        for values in answer.keys:
            self.owners[values[0], values[1]] = dict(zip(query.labels, values, strict=True))

    def add(self, name: str, matrix: Matrix, start: float, end: float, remembered: Remembered) -> None:
        """Take one counter's samples over (start, end], as far as one shard has them. A series counts from what it last
        said; where that is not known, from its sample at `start`. `allocated` is to come first.
        """
        self._cover(start, end)
        counts = np.diff(matrix.offsets)
        series = np.repeat(np.arange(len(counts)), counts)
        usable = np.isfinite(matrix.values) & (matrix.times > start - self.interval / 2)
        series, times, values = series[usable], matrix.times[usable], matrix.values[usable]
        ending = self._ends.setdefault(name, SpanEnd())
        if not len(times):
            return
        ids = self._numbers(matrix.keys)
        same = series[1:] == series[:-1]
        first = np.flatnonzero(np.concatenate(([True], ~same)))
        last = np.flatnonzero(np.concatenate((~same, [True])))
        present, late = ids[series[first]], times[first] > start + self.interval / 2
        before = remembered.take(name, start, present, within=self.interval / 2)
        if name == "allocated":
            # What is left of a series that was not reset is at most so old, and grew by no more than that since.
            self._reset.append(present[~late & (values[first] < before - KEPT - self.interval)])
        before[np.isin(present, joined(self._reset))] = np.nan
        values = _continued(values, first, np.where(late, np.nan, before))
        steps = np.diff(values)
        where, when = series[1:][same], times[1:][same]
        growth = np.where(steps < 0, values[1:], steps)[same]
        if remembered.doubt is not None:
            growth = self._undoubted(name, remembered.doubt, present, ids[where], when, growth)
        known = np.flatnonzero(~np.isnan(before))
        more = values[first[known]] - before[known]
        where = np.concatenate((where, series[first[known]]))
        when = np.concatenate((when, times[first[known]]))
        growth = np.concatenate((growth, np.where(more < 0, values[first[known]], more)))
        self._charge(name, matrix.keys, where, when, growth)
        stays = times[last] >= end - self.interval / 2
        ending.present.append(present)
        ending.ids.append(present[stays])
        ending.values.append(values[last[stays]])
        # What is doubtful is nothing to go on from.
        gone = np.flatnonzero(~stays & ~np.isin(present, joined(self._flat)))
        for i, place in zip(last[gone].tolist(), present[gone].tolist(), strict=True):
            remembered.leave(name, place, matrix.keys[series[i]], float(values[i]), float(times[i]))

    def close(self, end: float, remembered: Remembered) -> None:
        """All answers to the span were taken that ends here."""
        for name, ending in self._ends.items():
            remembered.end(name, ending, end)
        if remembered.doubt is not None:
            flat = joined(self._flat)
            # What was counted so long before is in no answer any more.
            over = not len(flat) or end > remembered.doubt.since + KEPT
            remembered.doubt = None if over else replace(remembered.doubt, ids=flat)
        for taken in (self._ends, self._flat, self._reset, self._shares):
            taken.clear()

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

    def _numbers(self, keys: Keys) -> Ids:
        """Their ids. Counters of the same series share one list."""
        if self._numbered is None or self._numbered[0] is not keys:
            self._numbered = keys, ids_of(keys)
        return self._numbered[1]

    def _undoubted(self, name: str, doubt: Doubt, present: Ids, ids: Ids, when: Numbers, growth: Numbers) -> Numbers:
        """Growth of the series with these ids, in the order of time, of which the first step since the doubt is charged
        by no more than it grows in the time since, and what else was counted meanwhile by the same share.
        """
        if name == "allocated":
            grew = np.flatnonzero(growth > 0)
            grown, places = np.unique(ids[grew], return_index=True)
            self._flat.append(present[doubt.holds(present) & ~np.isin(present, grown)])
            steps = grew[places][doubt.holds(grown)]
            slopes = np.array([self.slopes.get(series, 0.0) for series in ids[steps].tolist()])
            most = np.clip(slopes, 0.0, 1.0) * (when[steps] - doubt.since + self.interval)
            self._shares.append((ids[steps], when[steps], np.minimum(1.0, most / growth[steps])))
        growth = growth.copy()
        for of, at, share in self._shares:
            if len(of):
                places = np.minimum(np.searchsorted(of, ids), len(of) - 1)
                hit = (of[places] == ids) & (at[places] == when)
                growth[hit] *= share[places][hit]
        return growth

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


def _continued(values: Numbers, first: NDArray[np.int64], before: Numbers) -> Numbers:
    """Values of several series, each of which begins at an index of `first`, so that each goes on from what it was
    `before` (NaN: as it is).

    Where it begins lower, older samples are all that is left: nothing is below that until it is reset. Where it begins
    higher, its last samples came late, or those of a reset are lost: that says nothing before it changes.
    """
    begins = values[first]
    lower, higher = begins < before, begins > before
    if not (lower | higher).any():
        return values
    lengths = np.diff(np.append(first, len(values)))
    steps = np.diff(values)
    # From one series to the next is no step.
    drops, changes = (np.concatenate(([0], np.cumsum(which))) for which in (steps < 0, steps != 0))
    is_reset = drops > np.repeat(drops[first], lengths)
    is_same = changes == np.repeat(changes[first], lengths)
    known = np.repeat(before, lengths)
    values = np.where(np.repeat(lower, lengths) & ~is_reset, np.maximum(values, known), values)
    return np.where(np.repeat(higher, lengths) & is_same, known, values)
