"""What evaluates during one term: source, schedulers and engine, made anew from the store and let go at its end.

Nothing of a former term is used again: whoever evaluated in between knows better, and what counts is in the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.errors import AlerterError, LeaseLostError
from dutycycle_alerter.notify.couriers import Contents, Couriers, check_receivers
from dutycycle_alerter.scheduler import Scheduler, Task
from dutycycle_alerter.schedulers import connected
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.prometheus import PrometheusSource
from dutycycle_alerter.sources.scrape import ScrapeSource
from dutycycle_alerter.store.retention import forget, trusted_now
from dutycycle_alerter.store.status import mark_replay
from dutycycle_alerter.store.transactions import Transactions
from dutycycle_alerter.views import DeliveryCounts, WatchCounts

log = logging.getLogger(__name__)

_OFTEN = 0.2
"""Wall seconds between two looks at what waits to be told at least, at any time scale."""

_HOUSEKEEPING = 4
"""Intervals of housekeeping that one run does at most: what a clock that is ahead would have deleted is gone for good,
and what was left during an absence has time.
"""


def check(settings: Settings) -> None:
    """Connect what a term would need, and let it go: who follows says at its start that its configuration cannot be
    used, and not when it is needed. `settings` are scaled. Raises ConfigError.
    """
    connected(settings).close()
    check_receivers(settings)


class Evaluator:
    """Scrapes, judges, tells and keeps house from `start` to `close`. `settings` are scaled (wall seconds).

    `store` is what the term may do to the database; `lost` is called where it says that the lease is lost, `passed`
    after each pass. `replay` tells that the exporters play a recording, so that the very first page says so. `contents`
    are for messages.
    """

    def __init__(
        self,
        settings: Settings,
        store: Transactions,
        clock: Callable[[], float],
        scheduler: Scheduler,
        *,
        lost: Callable[[], None],
        passed: Callable[[], object] = lambda: None,
        replay: bool = False,
        contents: Contents = Contents(),  # noqa: B008 - frozen
    ) -> None:
        """Go on from what the store has. Raises StoreError, ConfigError."""
        self._settings = settings
        self._store = store
        self._clock = clock
        self._scheduler = scheduler
        self._lost = lost
        self._passed = passed
        self._tasks: list[Task] = []
        self._telling: list[Task] = []
        if replay:
            with store.write() as connection:
                mark_replay(connection)
        self._couriers = Couriers(settings, store, clock, contents)
        try:
            workloads = connected(settings)
        except BaseException:
            self._couriers.close()
            raise
        self._source: ScrapeSource | PrometheusSource
        try:
            if settings.prometheus is None:
                self._source = ScrapeSource(settings, store, clock)
            else:
                self._source = PrometheusSource(settings, store)
        except BaseException:
            workloads.close()
            self._couriers.close()
            raise
        announce = self._couriers.announcer.announce
        self._engine = Engine(settings, self._source, store, clock, workloads=workloads, announce=announce)
        try:
            self._source.restore()
        except BaseException:
            self._release()
            self._couriers.close()
            raise

    def deliveries(self) -> Mapping[str, DeliveryCounts]:
        """What became of messages, by receiver."""
        return self._couriers.counts()

    def watches(self) -> Mapping[str, WatchCounts]:
        """How the watches of the schedulers fare."""
        return self._engine.watches()

    def failures(self) -> Mapping[str, int]:
        """How often something failed of one job, GPU or node alone, by step."""
        return self._engine.failures()

    def start(self) -> None:
        """Begin at once: a cluster that changed hands has waited long enough."""
        schedule = self._settings.schedule
        first_pass = 0.0
        if isinstance(self._source, ScrapeSource):
            self._every(self._settings.source.interval, "scrape", self._source.scrape)
            # The first pass comes after the first scrape, so that it has something to say.
            first_pass = self._settings.source.interval
        self._every(schedule.pass_interval, "pass", self._pass, delay=first_pass)
        self._every(schedule.housekeeping_interval, "housekeeping", self._keep_house)
        often = max(_OFTEN, self._settings.notify.interval)
        for courier in self._couriers.all:
            self._telling.append(self._task(often, f"deliver {courier.name}", courier.turn))

    def close(self) -> None:
        """Finish what runs, save what was scraped last where that is still ours to do, and let go of everything."""
        self._couriers.stop()
        self._scheduler.cancel(*self._tasks)
        self._release()
        # Last, since a receiver that hangs may keep its courier for as long as its time-outs are.
        self._scheduler.cancel(*self._telling)
        self._couriers.close()

    def _pass(self) -> None:
        self._engine.run_pass()
        self._passed()

    def _keep_house(self) -> None:
        self._source.housekeeping()
        longest = _HOUSEKEEPING * self._settings.schedule.housekeeping_interval
        forget(self._store, self._settings.retention, trusted_now(self._store, self._clock(), longest=longest))

    def _release(self) -> None:
        try:
            self._source.close()
        except LeaseLostError:
            log.info("what was scraped last is left to the alerter that evaluates now")
        except AlerterError as failure:
            log.error("the last counters were not saved: %s", failure)  # noqa: TRY400 - a message for people
        self._engine.close()

    def _every(self, seconds: float, name: str, function: Callable[[], None], *, delay: float = 0.0) -> None:
        self._tasks.append(self._task(seconds, name, function, delay=delay))

    def _task(self, seconds: float, name: str, function: Callable[[], None], *, delay: float = 0.0) -> Task:
        def run() -> None:
            try:
                function()
            except LeaseLostError:
                self._lost()
                raise

        return self._scheduler.every(seconds, name, run, delay=delay)
