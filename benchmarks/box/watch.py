"""Looks on while a run goes: what each event in an incident's story said at its time, and when passes came."""

from __future__ import annotations

import threading
from collections import defaultdict
from itertools import pairwise

from dutycycle_alerter.errors import AlerterError
from dutycycle_alerter.store.reader import StoreReader

from .clock import Clock
from .model import Told


class Watch(threading.Thread):
    """Events tell rules and severity, and an incident its causes: so they are looked at together, at once."""

    def __init__(self, store: StoreReader, clock: Clock, every: float) -> None:
        super().__init__(name="watch", daemon=True)
        self.told: defaultdict[int, list[Told]] = defaultdict(list)
        self.passes: list[float] = []
        """Their Unix times."""
        self.failed = 0
        self._store = store
        self._clock = clock
        self._every = every
        self._seen = 0
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(self._every):
            self._look()

    def stop(self) -> None:
        """After a last look."""
        self._stopping.set()
        self.join()
        self._look()

    def _look(self) -> None:
        try:
            last = self._store.status().last_pass
            if last is not None and (not self.passes or last > self.passes[-1]):
                self.passes.append(last)
            while events := self._store.events_after(self._seen):
                for number, incident, event in events:
                    self._seen = number
                    causes = tuple(str(cause) for cause in incident.diagnosis.causes)
                    at = self._clock.scenario(event.at)
                    rule = str(event.data.get("rule") or incident.rule)
                    severity = str(event.data.get("severity") or incident.severity)
                    self.told[incident.id].append(Told(at, event.kind.value, rule, causes, severity))
        except AlerterError:
            self.failed += 1

    def overdue(self, interval: float, since: float, until: float) -> float:
        """The share of the time in which a pass was overdue by more than its interval."""
        return overdue(self.passes, interval, since, until)


def overdue(times: list[float], interval: float, since: float, until: float) -> float:
    """Of [since, until], the share for which what should happen in every interval was late by more than another."""
    within = [since, *(t for t in times if since < t < until), until]
    late = sum(max(0.0, after - before - 2 * interval) for before, after in pairwise(within))
    return late / (until - since) if until > since else 0.0
