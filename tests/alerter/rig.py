"""The real source, engine and store over fake exporters on real sockets, in time that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from dutycycle_alerter.engine import Engine
from dutycycle_alerter.model import JobEvidence
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.scrape import ScrapeSource
from dutycycle_alerter.store.database import connect, open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.store.schema import gpu_counter, metadata
from dutycycle_alerter.views import GpuNow
from tests.alerter.exporters import Answer, FakeExporter, serving
from tests.fakes.clock import FakeClock

INTERVAL = 15.0
TIMEOUT = 60.0
"""Seconds for an exporter's answer: one that stalls does answer."""

Store = Path | str
"""An SQLite file, or the URL of a database."""


def url_of(store: Store) -> str:
    """As SQLAlchemy has it."""
    return store if isinstance(store, str) else f"sqlite:///{store}"


class Rig:
    """Exporters on real sockets, a source that reads them, a store, and a clock that the test moves."""

    def __init__(
        self, store: Store, targets: tuple[str, ...], exporters: list[FakeExporter], interval: float, time_scale: float
    ) -> None:
        self.url, self.targets, self.exporters, self.clock = url_of(store), targets, exporters, FakeClock()
        self.interval = interval
        self.database = open_database(self.url, time_scale=time_scale)
        source = {"targets": targets, "interval": interval * time_scale, "timeout": TIMEOUT}
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
        with self.database.read() as connection:
            return int(connection.execute(sa.select(sa.func.count()).select_from(gpu_counter)).scalar_one())

    def contents(self, *but: str) -> dict[str, list[tuple[object, ...]]]:
        """Everything in the store, by table."""
        with self.database.read() as connection:
            return {
                table.name: sorted(map(tuple, connection.execute(sa.select(table))), key=repr)
                for table in metadata.sorted_tables
                if table.name not in but
            }

    def close(self) -> None:
        self.source.close()
        self.database.close()


Page = Callable[[], str | Answer]


@contextmanager
def running(
    store: Store, *pages: FakeExporter | Page, interval: float = INTERVAL, time_scale: float = 1
) -> Iterator[Rig]:
    """Serve the pages and read them into a store; fake exporters are driven by the rig's steps.

    `interval` is in wall seconds.
    """
    exporters = [page for page in pages if isinstance(page, FakeExporter)]
    with serving(*(page.page if isinstance(page, FakeExporter) else page for page in pages)) as targets:
        rig = Rig(store, targets, exporters, interval, time_scale)
        try:
            yield rig
        finally:
            rig.close()


_REFUSAL = {
    "sqlite": (
        "CREATE TRIGGER refuse BEFORE {action} ON {table} BEGIN SELECT RAISE(ABORT, 'disk is full'); END",
        "DROP TRIGGER refuse",
    ),
    "postgresql": (
        """CREATE FUNCTION refused() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'disk is full'; END$$;
        CREATE TRIGGER refuse BEFORE {action} ON {table} FOR EACH ROW EXECUTE FUNCTION refused()""",
        "DROP FUNCTION refused CASCADE",
    ),
}


@contextmanager
def refusing(store: Store, table: str, action: str = "INSERT") -> Iterator[None]:
    """The database refuses to change a table, as on a full disk."""
    engine, _ = connect(url_of(store))
    begin, end = _REFUSAL[engine.dialect.name]
    with engine.execution_options(immediate=True).begin() as connection:
        connection.exec_driver_sql(begin.format(action=action, table=table))
    try:
        yield
    finally:
        with engine.execution_options(immediate=True).begin() as connection:
            connection.exec_driver_sql(end)
        engine.dispose()
