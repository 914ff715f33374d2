"""One workload on one GPU as it was scraped: its counters, since when, and what of them the ledger has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from dutycycle_alerter.history import GPU_GAUGES, Series, Values
from dutycycle_alerter.model import Gpu, job_id

ABSENT_ANSWERS = 3
"""Answers without the allocation after which it has ended; also scrape intervals after which a silent node is
unseen.
"""

_PEAKS = frozenset(GPU_GAUGES.index(name) for name in ("memory_used", "processes"))


@dataclass(slots=True)
class Tracked:
    """One workload on one GPU. `link` is the kind of link whose bytes are counted: the first that was seen.
    `pod_labels` are those of its pod.

    `accounted` are the totals that the ledger has already, None for a counter that was never seen. After a restart it
    is only known until when (`accounted_until`): the totals of that instant lie between the last point that was stored
    and the next that is scraped.
    """

    labels: Mapping[str, str]
    history: Series
    start: float | None = None
    first_process: float | None = None
    allocated_at: float = 0.0
    absent: int = 0
    saved_at: float = 0.0
    link: str = ""
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    accounted: Values = ()
    accounted_until: float | None = None

    @property
    def gone(self) -> bool:
        """Whether the allocation has ended."""
        return self.absent >= ABSENT_ANSWERS

    @property
    def newest(self) -> float:
        """When it was last scraped."""
        return self.history.times[-1]

    def append(self, t: float, counters: Values, gauges: Values, *, spacing: float) -> None:
        """Take one scrape. What a counter holds when it is first seen is not consumption. Between two points that are
        kept lie the most memory, and the most processes.
        """
        if self.history.crowded(spacing):
            before = self.history.gauges[-1]
            gauges = tuple(
                _most(old, new) if place in _PEAKS else new
                for place, (old, new) in enumerate(zip(before, gauges, strict=True))
            )
        self.history.append(t, counters, gauges, spacing=spacing)
        if self.accounted_until is not None:
            self.accounted, self.accounted_until = self._baseline(), None
        self.accounted = _known(self.accounted, self.history.totals[-1])

    def rewind(self, until: float) -> None:
        """The clock was set back: nothing that was seen lies later than `until`."""
        if self.accounted_until is not None:
            if self.accounted_until <= self.newest:
                self.accounted, self.accounted_until = self._baseline(), None
            elif self.accounted_until > until:
                # An instant of the old clock, of which no point is left: counting goes on at the next scrape, so that
                # nothing is counted twice.
                self.accounted_until = inf
        self.history.rewind(until)
        self.allocated_at = min(self.allocated_at, until)
        self.saved_at = min(self.saved_at, until)

    def consumption(self) -> Values:
        """Growth of each counter since what is accounted for; None where it is missing now."""
        return tuple(
            None if new is None or old is None else max(0.0, new - old)
            for new, old in zip(self.history.totals[-1], self._baseline(), strict=True)
        )

    def account(self) -> None:
        """The consumption is in the ledger."""
        if self.accounted_until is None or self.newest > self.accounted_until:
            self.accounted, self.accounted_until = _known(self.history.totals[-1], self._baseline()), None

    def _baseline(self) -> Values:
        return self.accounted if self.accounted_until is None else self.history.known_at(self.accounted_until)

    @property
    def job_id(self) -> str:
        """The job that it belongs to."""
        return job_id(self.labels.get("cluster", ""), self.labels["workload"])

    @property
    def gpu(self) -> Gpu:
        """The GPU it is on."""
        labels = self.labels
        return Gpu(
            node=labels["node"],
            index=labels["gpu"],
            uuid=labels["gpu_uuid"],
            mig=labels["mig"],
            model=labels.get("model", ""),
        )


def _most(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)


def _known(values: Values, otherwise: Values) -> Values:
    return tuple(other if value is None else value for value, other in zip(values, otherwise, strict=True))
