"""Asks for what jobs consumed since the last pass, span by span. What has no answer is asked for again."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.sources.prometheus.accounts import Growth, spans
from dutycycle_alerter.sources.prometheus.asking import Deadline, Engine
from dutycycle_alerter.sources.prometheus.identity import Key
from dutycycle_alerter.sources.prometheus.remembered import Remembered
from dutycycle_alerter.sources.prometheus.said import Doubt
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
    """What jobs consumed until an instant; `error` is why that is not all that is due, empty where nothing failed.
    `total` is what all counters of allocated seconds said at that instant, None where it is not known.
    """

    growth: Growth
    remembered: Remembered
    until: float
    error: str = ""

    @property
    def total(self) -> float | None:
        """As above."""
        said = self.remembered.said("allocated")
        return None if said is None else said.total()


class Accounting:
    """`interval` is the scrape interval, `hour` an hour of the ledger, both in wall seconds; `queries` are those of a
    span of so many wall seconds, of all shards; `totals` ask what all counters of allocated seconds say together.
    """

    def __init__(
        self,
        engine: Engine,
        interval: float,
        hour: float,
        queries: Callable[[float], Sequence[Query]],
        totals: Sequence[Query] = (),
    ) -> None:
        self._engine = engine
        self._interval = interval
        self._hour = hour
        self._queries = queries
        self._totals = totals
        self._remembered = Remembered()

    def account(self, at: float, since: float | None, deadline: Deadline, *, total: float | None = None) -> Accounted:
        """As much as can be had of what is due at `at`. Where the engine fails, the spans that are whole are kept:
        incidents do not wait for the ledger. `total` is that of what is accounted for, as the store has it.
        """
        due = spans(since, at, self._interval)
        accounted = Accounted(Growth(self._interval, self._hour), self._remembered.apart(), due.instants[0])
        if due.until > due.instants[0] and total is not None and accounted.total is None:
            try:
                if self._differs(total, due.instants[0], deadline):
                    accounted.remembered.doubt = Doubt(due.instants[0])
            except SourceError as error:
                accounted.error = str(error)
                return accounted
        for start, end in due:
            if accounted.until > due.instants[0] and deadline.near:
                # What is left is caught up by the next pass: one that came to no end would never catch up.
                break
            remembered = accounted.remembered.apart()
            try:
                growth = self._span(start, end, remembered, deadline)
            except SourceError as error:
                accounted.error = str(error)
                break
            accounted.growth.merge(growth)
            remembered.keep()
            accounted.until = end
        return accounted

    def committed(self, accounted: Accounted, alive: Container[Key]) -> None:
        """It is in the store. `alive` are the allocations that have not ended."""
        accounted.remembered.keep()
        # By what is accounted for, not by the clock: it may be hours behind.
        self._remembered.forget(accounted.until, alive)

    def _differs(self, total: float, at: float, deadline: Deadline) -> bool:
        """Whether the engine has something else than what was charged until then."""
        if not self._totals:
            return False
        answers = [
            self._engine.instant(query.text, at=at, labels=query.labels, within=deadline.left())
            for query in self._totals
        ]
        return abs(sum(float(answer.values.sum()) for answer in answers) - total) > _ROUNDED

    def _span(self, start: float, end: float, remembered: Remembered, deadline: Deadline) -> Growth:
        growth = Growth(self._interval, self._hour)
        for query in self._queries(end - start):
            if query.samples:
                matrix = self._engine.raw(query.text, at=end, labels=query.labels, within=deadline.left())
                growth.add(query.name, matrix, start, end, remembered)
                continue
            vector = self._engine.instant(query.text, at=end, labels=query.labels, within=deadline.left())
            if query.labels == OWNER:
                growth.own(query, vector)
            else:
                growth.take(query.name, vector, start, end)
        growth.close(end, remembered)
        return growth
