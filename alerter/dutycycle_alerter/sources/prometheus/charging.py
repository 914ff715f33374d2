"""By how much the series of one span grew since they were last charged, whatever the engine has lost since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dutycycle_alerter.promql.answers import Keys, Matrix
from dutycycle_alerter.sources.prometheus.last_values import Doubt, Flags, Ids, Numbers, SpanEnd, ids_of, joined
from dutycycle_alerter.sources.prometheus.queries import KEPT
from dutycycle_alerter.sources.prometheus.remembered import Remembered


@dataclass(frozen=True, slots=True)
class Steps:
    """By how much series grew, and when: `series` are their places among the keys of the answer."""

    series: Ids
    when: Numbers
    growth: Numbers


_NO_STEPS = Steps(np.empty(0, np.int64), np.empty(0), np.empty(0))


class Charging:
    """Of one span, (start, end]: wall seconds of Unix time, with a sample each `interval`. Every counter's answers are
    taken once, shard by shard, those of `allocated` first.

    `slopes` are by how much the allocated seconds of a series (by id) grow in a second; needed where there is doubt.
    """

    def __init__(
        self, start: float, end: float, interval: float, remembered: Remembered, slopes: Mapping[int, float]
    ) -> None:
        self._start = start
        self._end = end
        self._interval = interval
        self._remembered = remembered
        self._slopes = slopes
        self._ends: dict[str, SpanEnd] = {}
        self._flat: list[Ids] = []
        """What is doubtful still."""
        self._reset: list[Ids] = []
        """What began anew before its first sample."""
        self._shares: list[tuple[Ids, Numbers, Numbers]] = []
        """Of which series, at what time, but a share of a step is charged."""
        self._numbered: tuple[Keys, Ids] | None = None

    def steps(self, name: str, matrix: Matrix) -> Steps:
        """Take one shard's samples of a counter. A series counts from its last value; where that is not known, from its
        sample at the beginning.
        """
        half = self._interval / 2
        counts = np.diff(matrix.offsets)
        series = np.repeat(np.arange(len(counts)), counts)
        usable = np.isfinite(matrix.values) & (matrix.times > self._start - half)
        series, times, values = series[usable], matrix.times[usable], matrix.values[usable]
        ending = self._ends.setdefault(name, SpanEnd())
        if not len(times):
            return _NO_STEPS
        ids = self._numbers(matrix.keys)
        same = series[1:] == series[:-1]
        first = np.flatnonzero(np.concatenate(([True], ~same)))
        last = np.flatnonzero(np.concatenate((~same, [True])))
        present, late = ids[series[first]], times[first] > self._start + half
        before = self._before(name, present, values[first], late)
        values = _continued(values, first, np.where(late, np.nan, before))
        grown = np.diff(values)
        where, when = series[1:][same], times[1:][same]
        growth = np.where(grown < 0, values[1:], grown)[same]
        if self._remembered.doubt is not None:
            growth = self._undoubted(name, self._remembered.doubt, present, ids[where], when, growth)
        known = np.flatnonzero(~np.isnan(before))
        more = values[first[known]] - before[known]
        stays = times[last] >= self._end - half
        ending.present.append(present)
        ending.ids.append(present[stays])
        ending.values.append(values[last[stays]])
        # What is doubtful is nothing to go on from.
        gone = np.flatnonzero(~stays & ~np.isin(present, joined(self._flat)))
        for i, place in zip(last[gone].tolist(), present[gone].tolist(), strict=True):
            self._remembered.leave(name, place, matrix.keys[series[i]], float(values[i]), float(times[i]))
        return Steps(
            np.concatenate((where, series[first[known]])),
            np.concatenate((when, times[first[known]])),
            np.concatenate((growth, np.where(more < 0, values[first[known]], more))),
        )

    def close(self) -> None:
        """All answers were taken: it is remembered where the series ended."""
        for name, ending in self._ends.items():
            self._remembered.end(name, ending, self._end)
        doubt = self._remembered.doubt
        if doubt is not None:
            flat = joined(self._flat)
            # What was counted so long before is in no answer any more.
            over = not len(flat) or self._end > doubt.since + KEPT
            self._remembered.doubt = None if over else replace(doubt, ids=flat)

    def _before(self, name: str, present: Ids, begins: Numbers, late: Flags) -> Numbers:
        """From what these series count on; NaN: from their first sample."""
        before = self._remembered.take(name, self._start, present, within=self._interval / 2)
        if name == "allocated":
            # What is left of a series that was not reset is at most so old, and grew by no more than that since.
            self._reset.append(present[~late & (begins < before - KEPT - self._interval)])
        before[np.isin(present, joined(self._reset))] = np.nan
        return before

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
            slopes = np.array([self._slopes.get(series, 0.0) for series in ids[steps].tolist()])
            most = np.clip(np.nan_to_num(slopes), 0.0, 1.0) * (when[steps] - doubt.since + self._interval)
            self._shares.append((ids[steps], when[steps], np.minimum(1.0, most / growth[steps])))
        growth = growth.copy()
        for of, at, share in self._shares:
            if len(of):
                places = np.minimum(np.searchsorted(of, ids), len(of) - 1)
                hit = (of[places] == ids) & (at[places] == when)
                growth[hit] *= share[places][hit]
        return growth


def _continued(values: Numbers, first: Ids, before: Numbers) -> Numbers:
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
