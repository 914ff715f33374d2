"""Whether the machine kept pace with the site's clock: where it did not, what came late tells of the machine.

It is asked where nothing was done to anything for as long as it takes to recover: there all is late that is late for
want of time.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.box.pace import LATE
from benchmarks.box.watch import overdue

from .promises.lost import lost
from .promises.quiet import untouched, without
from .record import Record


@dataclass(frozen=True)
class Pace:
    """Shares of the calm time in which a pass, and a scrape, was overdue by more than its interval; None: there was no
    calm time, or nobody could be asked.
    """

    passes: float | None
    scrapes: float | None

    @property
    def slow(self) -> bool:
        return max(self.passes or 0.0, self.scrapes or 0.0) > LATE

    def __str__(self) -> str:
        if self.passes is None or self.scrapes is None:
            return "whether the machine kept pace cannot be said: of a calm time nothing was seen"
        shares = f"passes were overdue for {self.passes:.1%} and scrapes for {self.scrapes:.1%} of the calm time"
        return f"this machine was too slow: {shares}" if self.slow else shares


def pace(record: Record) -> Pace:
    return Pace(_passes(record), _scrapes(record))


def _passes(record: Record) -> float | None:
    """Of the leader's pages, those on which the last pass had begun two intervals before and more."""
    spans = untouched(record)
    ages = [
        page.at - page.last_pass
        for page in record.alerters
        if page.leads and any(begin <= page.at <= end for begin, end in spans)
    ]
    return sum(age > 2 * record.pass_interval for age in ages) / len(ages) if ages else None


def _scrapes(record: Record) -> float | None:
    """Of all nodes on average; of what Prometheus had and lost again nobody knows when it came."""
    gone = [span for fault in record.faults if (span := lost(record, fault)) is not None]
    spans = without(untouched(record), gone)
    total = sum(until - since for since, until in spans) * len(record.scrapes)
    late = sum(
        overdue(list(times), record.interval, since, until) * (until - since)
        for times in record.scrapes.values()
        for since, until in spans
    )
    return late / total if total else None
