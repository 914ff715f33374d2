"""Asks for what jobs consumed since the last pass, span by span. What has no answer is asked for again."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.promql.answers import Matrix
from dutycycle_alerter.sources.prometheus.accounts import Growth, spans
from dutycycle_alerter.sources.prometheus.asking import Deadline, Engine
from dutycycle_alerter.sources.prometheus.charging import Charging
from dutycycle_alerter.sources.prometheus.identity import Key
from dutycycle_alerter.sources.prometheus.last_values import Doubt, ids_of
from dutycycle_alerter.sources.prometheus.remembered import Remembered
from dutycycle_alerter.sources.prometheus.selectors import OWNER, Query

_KEPT = 0.25
"""The part of a pass that is kept for this: where the evidence takes all of the time in every pass, nothing would ever
be accounted for.
"""
_ROUNDED = 1.0
"""Seconds by which the engine's sum has to differ from the store's before it says anything: both are rounded."""


class Sooner(Deadline):
    """Until when a pass asks for everything else."""

    def left(self) -> float:
        """As of `Deadline`."""
        left = super().left() - _KEPT * self._seconds
        if left <= 0:
            raise SourceError(f"what is left of prometheus.pass_timeout ({self._seconds:g} s) is kept for usage")
        return left


@dataclass(slots=True)
class Accounted:
    """What jobs consumed until an instant; `error` is why that is not all that is due, empty where nothing failed."""

    growth: Growth
    remembered: Remembered
    until: float
    error: str = ""

    @property
    def total(self) -> float | None:
        """What all counters of allocated seconds said together at that instant; None where that is not known, or where
        the engine did not say what was charged.
        """
        last = self.remembered.last("allocated")
        return None if last is None or self.remembered.doubt is not None else last.total()


class Accounting:
    """`interval` is the scrape interval, `hour` an hour of the ledger, both in wall seconds; `queries` are those of a
    span of so many wall seconds, of all shards; `slopes` ask how fast counters of allocated seconds grow.
    """

    def __init__(
        self,
        engine: Engine,
        interval: float,
        hour: float,
        queries: Callable[[float], Sequence[Query]],
        slopes: Sequence[Query] = (),
    ) -> None:
        self._engine = engine
        self._interval = interval
        self._hour = hour
        self._queries = queries
        self._slopes = slopes
        self._remembered = Remembered()

    def account(self, at: float, since: float | None, deadline: Deadline, *, total: float | None = None) -> Accounted:
        """As much as can be had of what is due at `at`. Where the engine fails, the spans that are whole are kept:
        incidents do not wait for the ledger. `total` is that of what is accounted for, as the store has it.
        """
        due = spans(since, at, self._interval)
        accounted = Accounted(Growth(self._interval, self._hour), self._remembered.apart(), due.instants[0])
        if self._remembered.last("allocated") is not None:
            total = None
        for start, end in due:
            if accounted.until > due.instants[0] and deadline.near:
                # What is left is caught up by the next pass: one that came to no end would never catch up.
                break
            remembered = accounted.remembered.apart()
            try:
                growth = self._span(start, end, remembered, deadline, total)
            except SourceError as error:
                accounted.error = str(error)
                break
            accounted.growth.merge(growth)
            remembered.keep()
            accounted.until, total = end, None
        return accounted

    def committed(self, accounted: Accounted, alive: Container[Key]) -> None:
        """It is in the store. `alive` are the allocations that have not ended."""
        accounted.remembered.keep()
        # By what is accounted for, not by the clock: it may be hours behind.
        self._remembered.forget(accounted.until, alive)

    def _span(
        self, start: float, end: float, remembered: Remembered, deadline: Deadline, total: float | None
    ) -> Growth:
        """What grew. `total` is what the store has of the beginning; None: this alerter knows better."""
        growth = Growth(self._interval, self._hour)
        queries = sorted(self._queries(end - start), key=lambda query: query.name != "allocated")
        first: dict[Query, Matrix] = {}
        if total is not None:
            first = {
                query: self._samples(query, end, deadline)
                for query in queries
                if query.samples and query.name == "allocated"
            }
            if first and abs(_at(start, first.values(), self._interval) - total) > _ROUNDED:
                remembered.doubt = Doubt(start)
        slopes = self._growing(end, deadline) if remembered.doubt is not None else {}
        charging = Charging(start, end, self._interval, remembered, slopes)
        for query in queries:
            if query.samples:
                matrix = first.pop(query) if query in first else self._samples(query, end, deadline)
                growth.add(query.name, matrix.keys, start, end, charging.steps(query.name, matrix))
                continue
            vector = self._engine.instant(query.text, at=end, labels=query.labels, within=deadline.left())
            if query.labels == OWNER:
                growth.own(query, vector)
            else:
                growth.take(query.name, vector, start, end)
        charging.close()
        return growth

    def _growing(self, at: float, deadline: Deadline) -> dict[int, float]:
        """By how much the allocated seconds of each series grow in a second, by id."""
        found: dict[int, float] = {}
        for query in self._slopes:
            vector = self._engine.instant(query.text, at=at, labels=query.labels, within=deadline.left())
            found |= zip(ids_of(vector.keys).tolist(), vector.values.tolist(), strict=True)
        return found

    def _samples(self, query: Query, end: float, deadline: Deadline) -> Matrix:
        return self._engine.raw(query.text, at=end, labels=query.labels, within=deadline.left())


def _at(instant: float, answers: Iterable[Matrix], interval: float) -> float:
    """The sum of all series at this instant."""
    return fsum(
        value
        for matrix in answers
        for value in matrix.values[np.isfinite(matrix.values) & (abs(matrix.times - instant) < interval / 2)].tolist()
    )
