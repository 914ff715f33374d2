"""The alerter assembled: lease, schedule and store, started and stopped as one, with what evaluates while it leads."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from dutycycle_alerter.counting import Counting
from dutycycle_alerter.evaluator import Evaluator, check
from dutycycle_alerter.incidents.tally import Tally
from dutycycle_alerter.leadership import Leadership
from dutycycle_alerter.notify.couriers import Contents
from dutycycle_alerter.reports.weekly import weekly
from dutycycle_alerter.scheduler import Scheduler, Task, TaskRuns
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.store.clock import DatabaseClock
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.lease import Lease, Term
from dutycycle_alerter.store.lock import StoreLock
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.views import DeliveryCounts, Standing, WatchCounts

_SHORTEST = 2.0
"""Wall seconds of the shortest lease, at any time scale: a machine that stalls for less loses none."""

_ALONE = 3600.0
"""Wall seconds of the lease of an alerter that has its database for itself: nobody waits for its end."""

_HELD = 120.0
"""Seconds for which counters of incidents stay at 0 after the start: a scraper must see that to see them grow."""


class Alerter:
    """A running alerter; use it as a context manager. `settings` are as configured, not scaled.

    `clock` is this machine's; where the database is a server, everything goes by the database's instead. `replay` tells
    that its exporters play a recording.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time, *, replay: bool = False) -> None:
        self._replay = replay
        self._settings = settings.scaled()
        self._lock = StoreLock(settings.database)
        try:
            self._database = open_database(settings.database, time_scale=settings.time_scale)
        except BaseException:
            self._lock.release()
            raise
        self._scheduler = Scheduler(further=len(settings.notify.receivers))
        self._keeping: Task | None = None
        alone = self._lock.held
        database_clock = DatabaseClock(self._database)
        self.clock: Callable[[], float] = clock if alone else database_clock
        self._lease = Lease(
            self._database,
            settings.replica or f"{socket.gethostname()}-{os.getpid()}",
            _ALONE if alone else max(_SHORTEST, self._settings.schedule.pass_interval),
            clock=database_clock,
            alone=alone,
        )
        self._leadership = Leadership(self._lease, self._begin, alone=alone)
        self.store = StoreReader(self._database, self.clock, settings.policies.expectations)
        self._counting = Counting(self._database, held=_HELD / settings.time_scale)

    def __enter__(self) -> Self:
        try:
            self._leadership.turn()
            if self._leadership.evaluator is None:
                check(self._settings)
        except BaseException:
            self._close()
            raise
        often = self._lease.length / 4
        self._keeping = self._scheduler.every(often, "lease", self._leadership.turn, delay=often)
        self._scheduler.start()
        return self

    def tasks(self) -> Mapping[str, TaskRuns]:
        """How the periodic work fares, by its name."""
        return self._scheduler.tasks()

    def standing(self) -> Standing:
        """Whether it evaluates, or another does."""
        return self._leadership.standing()

    def watches(self) -> Mapping[str, WatchCounts]:
        """How the watches of the schedulers fare, while it evaluates."""
        evaluator = self._leadership.evaluator
        return evaluator.watches() if evaluator is not None and self.standing().leads else {}

    def failures(self) -> Mapping[str, int]:
        """How often something failed of one job, GPU or node alone, by step, while it evaluates."""
        evaluator = self._leadership.evaluator
        return evaluator.failures() if evaluator is not None and self.standing().leads else {}

    def deliveries(self) -> Mapping[str, DeliveryCounts]:
        """What became of messages, by receiver, while it evaluates."""
        evaluator = self._leadership.evaluator
        return evaluator.deliveries() if evaluator is not None and self.standing().leads else {}

    def tally(self, answers: bool) -> Tally:
        """What became of incidents while it evaluated; `answers`: whether the store does."""
        return self._counting.tally(answers)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._keeping is not None:
            self._scheduler.cancel(self._keeping)
        self._leadership.stop()
        self._scheduler.stop()
        self._close()

    def _begin(self, term: Term) -> Evaluator:
        self._counting.begin(term)
        return Evaluator(
            self._settings,
            term,
            self.clock,
            self._scheduler,
            lost=lambda: self._scheduler.soon("lease"),
            # What is not counted in a term is counted by nobody, and scrapers may be rare.
            passed=self._counting.tally,
            replay=self._replay,
            contents=Contents(
                series=lambda incident, until: self.store.series(incident, until=until),
                weekly=lambda since, until: weekly(self.store, since, until, self._settings.costs),
                replay=self._replay,
            ),
        )

    def _close(self) -> None:
        self._database.close()
        self._lock.release()
