"""The real source, engine and store over fake exporters on real sockets, in time that the test moves."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.model import JobEvidence
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.scrape import ScrapeSource
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.views import GpuNow
from tests.alerter.exporters import Answer, FakeExporter, serving
from tests.fakes.clock import FakeClock

INTERVAL = 15.0


class Rig:
    """Exporters on real sockets, a source that reads them, a store, and a clock that the test moves."""

    def __init__(
        self, path: Path, targets: tuple[str, ...], exporters: list[FakeExporter], interval: float, time_scale: float
    ) -> None:
        self.path, self.targets, self.exporters, self.clock = path, targets, exporters, FakeClock()
        self.interval = interval
        self.database = open_database(f"sqlite:///{path}", time_scale=time_scale)
        source = {"targets": targets, "interval": interval * time_scale}
        settings = Settings.model_validate({"source": source, "time_scale": time_scale})
        self.settings = settings.scaled()
        self.source = self.started()

    def started(self) -> ScrapeSource:
        """A source as it is after a start."""
        source = ScrapeSource(self.settings, self.database, self.clock)
        source.restore()
        return source

    def restart(self) -> None:
        """End and begin again, cleanly."""
        self.source.close()
        self.source = self.started()

    def step(self, times: int = 1, utilization: float | dict[str, float | None] = 0.5) -> None:
        """Let an interval pass and scrape."""
        for _ in range(times):
            self.clock.advance(self.interval)
            for exporter in self.exporters:
                exporter.run(self.interval, utilization)
            self.source.scrape()

    def run_pass(self) -> None:
        """One pass of the engine."""
        Engine(self.settings, self.source, self.database, self.clock).run_pass()

    @property
    def reader(self) -> StoreReader:
        """What people see."""
        return StoreReader(self.database, self.clock)

    def evidence(self) -> dict[str, JobEvidence]:
        """What a pass would read and commit."""
        with self.source.evidence(self.clock()) as evidence:
            return {item.job.id: item for item in evidence.jobs}

    def gpus(self) -> list[GpuNow]:
        return list(self.reader.gpus())

    def points(self) -> int:
        """Rows of counters in the store."""
        with closing(sqlite3.connect(self.path)) as connection:
            return int(connection.execute("SELECT count(*) FROM gpu_counter").fetchone()[0])

    def close(self) -> None:
        self.source.close()
        self.database.close()


Page = Callable[[], str | Answer]


@contextmanager
def running(
    path: Path, *pages: FakeExporter | Page, interval: float = INTERVAL, time_scale: float = 1
) -> Iterator[Rig]:
    """Serve the pages and read them into a store at `path`; fake exporters are driven by the rig's steps.

    `interval` is in wall seconds.
    """
    exporters = [page for page in pages if isinstance(page, FakeExporter)]
    with serving(*(page.page if isinstance(page, FakeExporter) else page for page in pages)) as targets:
        rig = Rig(path, targets, exporters, interval, time_scale)
        try:
            yield rig
        finally:
            rig.close()


@contextmanager
def refusing(path: Path, table: str, action: str = "INSERT") -> Iterator[None]:
    """The database refuses to change a table, as on a full disk."""
    statement = f"CREATE TRIGGER refuse BEFORE {action} ON {table} BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        connection.execute(statement)
    try:
        yield
    finally:
        with closing(sqlite3.connect(path, timeout=60)) as connection:
            connection.execute("DROP TRIGGER refuse")
