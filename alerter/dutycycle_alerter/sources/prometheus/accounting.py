"""Asks for what jobs consumed since the last pass, span by span. What has no answer is asked for again."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.sources.prometheus.accounts import Growth, Parked, spans
from dutycycle_alerter.sources.prometheus.asking import Deadline, Engine
from dutycycle_alerter.sources.prometheus.identity import Key
from dutycycle_alerter.sources.prometheus.selectors import OWNER, Query

_KEPT = 0.25
"""The part of a pass that is kept for this: where the evidence takes all of the time in every pass, nothing would ever
be accounted for.
"""


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
    parked: Parked
    until: float
    error: str = ""


class Accounting:
    """`interval` is the scrape interval, `hour` an hour of the ledger, both in wall seconds; `queries` are those of a
    span of so many wall seconds, of all shards.
    """

    def __init__(
        self, engine: Engine, interval: float, hour: float, queries: Callable[[float], Sequence[Query]]
    ) -> None:
        self._engine = engine
        self._interval = interval
        self._hour = hour
        self._queries = queries
        self._parked = Parked()

    def account(self, at: float, since: float | None, deadline: Deadline) -> Accounted:
        """As much as can be had of what is due at `at`. Where the engine fails, the spans that are whole are kept:
        incidents do not wait for the ledger.
        """
        due = spans(since, at, self._interval)
        accounted = Accounted(Growth(self._interval, self._hour), self._parked.apart(), due.instants[0])
        for start, end in due:
            if accounted.until > due.instants[0] and deadline.near:
                # What is left is caught up by the next pass: one that came to no end would never catch up.
                break
            parked = accounted.parked.apart()
            try:
                growth = self._span(start, end, parked, deadline)
            except SourceError as error:
                accounted.error = str(error)
                break
            accounted.growth.merge(growth)
            parked.keep()
            accounted.until = end
        return accounted

    def committed(self, accounted: Accounted, alive: Container[Key]) -> None:
        """It is in the store. `alive` are the allocations that have not ended."""
        accounted.parked.keep()
        # By what is accounted for, not by the clock: it may be hours behind.
        self._parked.forget(accounted.until, alive)

    def _span(self, start: float, end: float, parked: Parked, deadline: Deadline) -> Growth:
        growth = Growth(self._interval, self._hour)
        for query in self._queries(end - start):
            if query.samples:
                matrix = self._engine.raw(query.text, at=end, labels=query.labels, within=deadline.left())
                growth.add(query.name, matrix, start, end, parked)
                continue
            vector = self._engine.instant(query.text, at=end, labels=query.labels, within=deadline.left())
            if query.labels == OWNER:
                growth.own(query, vector)
            else:
                growth.take(query.name, vector, start, end)
        return growth
