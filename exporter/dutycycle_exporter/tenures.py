"""Who held a GPU when, so that what is told late of a time is credited to those who held it then. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

LATEST = 120.0
"""Seconds after which nothing more is told of a time: beyond NVML's buffer and the time-out of a child that hangs."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """The workloads that held a GPU together from one instant to another, each with an equal share; none, it may be."""

    start: float
    end: float
    holders: tuple[str, ...]

    @property
    def length(self) -> float:
        """Seconds."""
        return self.end - self.start

    @property
    def share(self) -> float:
        """Each holder's. There must be one."""
        return 1.0 / len(self.holders)


class Tenures:
    """The tenures of one GPU. They lie end to end, up to the newest snapshot."""

    def __init__(self) -> None:
        self._tenures: list[Tenure] = []
        self._holders: tuple[str, ...] = ()
        self._displaced: frozenset[str] = frozenset()

    def hand_over(
        self, starts: Mapping[str, float | None], before: float, now: float, displaced: Collection[str] = ()
    ) -> list[Tenure]:
        """Workloads hold the GPU at `now`, each from its start where that is known, else from now: the tenures since
        `before`, when the holders were told last.

        Nobody saw the ends of those who hold it no more. Where the start of a new one is known it was then, else right
        after they were seen last. But the `displaced` are still there: they held it until the first new one began, and
        hold it again from the end of the last on, be it until the next one's beginning.
        """
        new = {holder: start for holder, start in starts.items() if holder not in self._holders}
        begin = {
            holder: before if holder in self._displaced else min(now, max(before, now if start is None else start))
            for holder, start in new.items()
        }
        known = [begin[holder] for holder, start in new.items() if start is not None and begin[holder] > before]
        end, given_up = min(known, default=before), min(begin.values(), default=before)
        held = [
            (holder, before, now if holder in starts else given_up if holder in displaced else end)
            for holder in self._holders
        ]
        held += [(holder, start, now) for holder, start in begin.items()]
        if not any(holder in starts for holder in self._holders):
            held += [(holder, end, given_up) for holder in displaced if holder in self._displaced]
        cuts = sorted({before, now, *(cut for _, *times in held for cut in times)})
        found = [
            Tenure(a, b, tuple(sorted(holder for holder, since, until in held if since <= a and b <= until)))
            for a, b in pairwise(cuts)
        ]
        for tenure in found:
            self._append(tenure)
        self._holders, self._displaced = tuple(starts), frozenset(displaced)
        return found

    def during(self, start: float, end: float) -> Iterator[Tenure]:
        """Tenures within (start, end]. The newest goes on: a GPU is read a little after the snapshot's instant."""
        for tenure in self._tenures:
            since = max(start, tenure.start)
            until = end if tenure is self._tenures[-1] else min(end, tenure.end)
            if since < until:
                yield Tenure(since, until, tenure.holders)

    def forget(self, until: float) -> None:
        """Nothing more is told of the time up to then."""
        self._tenures = [tenure for tenure in self._tenures if tenure.end > until or tenure is self._tenures[-1]]

    def _append(self, tenure: Tenure) -> None:
        last = self._tenures[-1] if self._tenures else None
        if last is not None and last.end == tenure.start and last.holders == tenure.holders:
            self._tenures[-1] = replace(last, end=tenure.end)
        else:
            self._tenures.append(tenure)
