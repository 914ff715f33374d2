"""The history in a PromQL engine: the `prometheus` source, asked at instants of the past."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.model import Evidence, JobKind
from dutycycle_alerter.promql.client import Client
from dutycycle_alerter.settings import KindMatch, Prometheus, Settings
from dutycycle_alerter.sources.prometheus import PrometheusSource
from dutycycle_alerter.sources.prometheus.scope import reads_labels, windows
from dutycycle_alerter.store.database import open_database, set_meta
from dutycycle_alerter.store.status import WATERMARK

_THERE = "count(gpu_visible or DCGM_FI_DEV_GPU_UTIL)"
_NO_JOB = ""


class PrometheusHistory:
    """A context manager. `settings` are as configured, not scaled, with a `prometheus` section; their kinds of jobs are
    left to whoever judges. Nothing outlives it: what the source keeps between instants is in a folder of its own.
    """

    def __init__(self, settings: Settings) -> None:
        neutral = reading(settings)
        self._settings = neutral.scaled()
        self._client = Client(self._settings.prometheus or Prometheus())
        self._stack = ExitStack()
        self._source: PrometheusSource | None = None
        self._gaps = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="dutycycle-backtest-")))
            url = f"sqlite:///{folder / 'backtest.sqlite3'}"
            self._database = open_database(url, time_scale=self._settings.time_scale)
            stack.callback(self._database.close)
            stack.callback(self._client.close)
            self._source = PrometheusSource(self._settings, self._database)
            stack.callback(self._source.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def gaps(self) -> int:
        """Instants at which no exporter was scraped."""
        return self._gaps

    def extent(self) -> tuple[float, float] | None:
        """An engine does not tell how far back it remembers."""
        return None

    def instants(self, since: float, until: float, step: float) -> Sequence[float]:
        """Every one: what the engine knew then is seen when it is asked."""
        return [since + number * step for number in range(1, int((until - since) / step * (1 + 1e-12)) + 1)]

    def evidence(self, at: float, since: float) -> Evidence:
        """What the engine knows of `at`; nothing where no exporter was scraped then. Raises SourceError, StoreError."""
        if self._source is None:
            raise SourceError("the history is not open")
        with self._source.evidence(at) as evidence:
            pass
        (target,) = self._source.targets()
        if target.last_success != at:
            if len(self._client.instant(_THERE, at=at, labels=()).keys):
                raise SourceError(target.error)
            self._gaps += 1
        elif self._source.usage_error:
            # An alerter would catch up. Here the waste of incidents that are over by then would be too low.
            raise SourceError(self._source.usage_error)
        with self._database.write() as connection:
            # What it counts from the next time; at first from the beginning of the range.
            set_meta(connection, WATERMARK, evidence.accounted_until or since)
        return evidence


def reading(settings: Settings) -> Settings:
    """The settings with which evidence is read that any configuration with the same windows can judge."""
    serving = any(match.kind is JobKind.SERVING for match in settings.kinds)
    # A kind of which there is no job: the source reads a whole day where some jobs may be serving.
    kinds = (KindMatch(kind=JobKind.SERVING, workload=_NO_JOB),) if serving else ()
    if reads_labels(settings):
        kinds = (*kinds, KindMatch(kind=JobKind.BATCH, workload=_NO_JOB, label="*=*"))
    # Nobody remembers what schedulers said of the past: what they would make of its jobs needs no reading.
    return settings.model_copy(update={"kinds": kinds, "uneven_by_design": (), "kubernetes": ()})


def read_alike(one: Settings, other: Settings) -> bool:
    """Whether the same evidence serves both configurations."""
    return windows(reading(one)) == windows(reading(other)) and reads_labels(one) == reads_labels(other)
