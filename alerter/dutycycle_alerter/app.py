"""The alerter assembled: source, engine, schedule and store, started and stopped as one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.errors import AlerterError
from dutycycle_alerter.scheduler import Scheduler, TaskRuns
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.slurm.watching import connect
from dutycycle_alerter.slurm.word import SlurmWorkloads
from dutycycle_alerter.sources.prometheus import PrometheusSource
from dutycycle_alerter.sources.scrape import ScrapeSource
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.lock import StoreLock
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.store.status import mark_replay

log = logging.getLogger(__name__)


class Alerter:
    """A running alerter; use it as a context manager. `settings` are as configured, not scaled.

    `replay` tells that its exporters play a recording, so that the very first page says so.
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
        self._source: ScrapeSource | PrometheusSource = (
            ScrapeSource(self._settings, self._database, clock)
            if self._settings.prometheus is None
            else PrometheusSource(self._settings, self._database)
        )
        slurm = self._settings.slurm
        workloads = None if slurm is None else SlurmWorkloads(slurm, connect(slurm), time_scale=settings.time_scale)
        self._engine = Engine(self._settings, self._source, self._database, clock, workloads=workloads)
        self._scheduler = Scheduler()
        self.store = StoreReader(self._database, clock)

    def __enter__(self) -> Self:
        try:
            if self._replay:
                with self._database.write() as connection:
                    mark_replay(connection)
            self._source.restore()
        except BaseException:
            self._close()
            raise
        schedule, source = self._settings.schedule, self._settings.source
        first_pass = 0.0
        if isinstance(self._source, ScrapeSource):
            self._scheduler.every(source.interval, "scrape", self._source.scrape)
            # The first pass comes after the first scrape, so that it has something to say.
            first_pass = source.interval
        self._scheduler.every(schedule.pass_interval, "pass", self._engine.run_pass, delay=first_pass)
        self._scheduler.every(schedule.housekeeping_interval, "housekeeping", self._source.housekeeping)
        self._scheduler.start()
        return self

    def tasks(self) -> Mapping[str, TaskRuns]:
        """How the periodic work fares, by its name."""
        return self._scheduler.tasks()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scheduler.stop()
        try:
            self._source.close()
        except AlerterError as failure:
            log.error("the last counters were not saved: %s", failure)  # noqa: TRY400 - a message for people
        self._close()

    def _close(self) -> None:
        self._engine.close()
        self._database.close()
        self._lock.release()
