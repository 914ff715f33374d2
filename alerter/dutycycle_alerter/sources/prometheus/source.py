"""The `prometheus` source: asks a PromQL engine a fixed set of queries a pass, answers with evidence.

An engine that does not answer, or knows none of our exporters, tells nothing: nothing opens and nothing resolves then.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.model import Evidence, JobEvidence, WindowEvidence, job_id
from dutycycle_alerter.printable import printable
from dutycycle_alerter.promql.answers import Vector
from dutycycle_alerter.promql.client import Client
from dutycycle_alerter.settings import Prometheus, Settings
from dutycycle_alerter.sources.claims import is_unowned
from dutycycle_alerter.sources.jobs import describe
from dutycycle_alerter.sources.prometheus import accounts, dcgm, queries, scope
from dutycycle_alerter.sources.prometheus.accounting import Accounted, Accounting, Sooner
from dutycycle_alerter.sources.prometheus.accounts import Growth
from dutycycle_alerter.sources.prometheus.asking import Deadline, Engine, Fold, ask
from dutycycle_alerter.sources.prometheus.collecting import no_collection
from dutycycle_alerter.sources.prometheus.columns import cells
from dutycycle_alerter.sources.prometheus.devices import DeviceEvidence
from dutycycle_alerter.sources.prometheus.identity import Answers, Identity, Known, twice
from dutycycle_alerter.sources.prometheus.learned import Learned
from dutycycle_alerter.sources.prometheus.listening import Listening
from dutycycle_alerter.sources.prometheus.loading import Loading
from dutycycle_alerter.sources.prometheus.memory_peaks import MemoryPeaks
from dutycycle_alerter.sources.prometheus.pace import Pace
from dutycycle_alerter.sources.prometheus.selectors import Query
from dutycycle_alerter.sources.prometheus.tables import Tables
from dutycycle_alerter.sources.prometheus.windows import Windows
from dutycycle_alerter.store.database import get_meta
from dutycycle_alerter.store.ledger import HOUR
from dutycycle_alerter.store.status import TOTAL, WATERMARK
from dutycycle_alerter.store.transactions import Transactions
from dutycycle_alerter.views import TargetStatus

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Read:
    """What a pass has read, until it is committed."""

    jobs: list[Known]
    accounted: Accounted
    evidence: Evidence


class PrometheusSource:
    """Thread-safe. `settings` are scaled (wall seconds)."""

    def __init__(self, settings: Settings, database: Transactions, engine: Engine | None = None) -> None:
        self._settings = settings
        self._section = settings.prometheus or Prometheus()
        self._database = database
        self._lock = threading.RLock()
        self._client = Client(self._section) if engine is None else None
        self._engine = Listening(engine or self._client)  # type: ignore[arg-type]  # one of them is there
        self._catalogue = dcgm if self._section.metrics == "dcgm" else queries
        self._shards = scope.shards(self._section)
        self._lengths = scope.windows(settings)
        evidence = [query for shard in self._shards for query in self._catalogue.evidence(settings, shard=shard)]
        # What a pass cannot do without comes first, of all shards.
        self._evidence_queries = sorted(evidence, key=lambda query: bool(query.window or query.optional))
        self._identity = Identity(self._section.scrape_interval, settings.time_scale)
        self._pace = Pace(self._section.scrape_interval, settings.time_scale)
        self._loading = Loading()
        self._peaks = MemoryPeaks(self._lengths.memory)
        hour = HOUR / settings.time_scale
        slopes = [query for shard in self._shards for query in self._catalogue.slopes(settings, shard=shard)]
        self._accounting = Accounting(self._engine, self._section.scrape_interval, hour, self._usage_queries, slopes)
        self._learned = Learned(database)
        self._accounted_until: float | None = None
        self._last_success: float | None = None
        self._whole_from = -inf
        """When the engine answered again after it had not: it may have lost what was before."""
        self._usage_error = ""
        self._error = ""
        self._noted = ""
        self._replay = False

    def restore(self) -> None:
        """Go on with what was learned before a restart. Raises StoreError."""
        with self._lock:
            self._learned.restore()

    @contextmanager
    def evidence(self, at: float) -> Iterator[Evidence]:
        """All that is known. Leaving the block without an error tells that the pass is in the store. Raises
        StoreError.
        """
        with self._lock, no_collection():
            with self._database.read() as connection:
                since, total = get_meta(connection, WATERMARK), get_meta(connection, TOTAL)
            known = (since or 0.0) if self._accounted_until is None else self._accounted_until
            try:
                read = self._read(at, since, total)
            except SourceError as error:
                self._error = str(error)
                until = accounts.spans(None, at, self._section.scrape_interval).until if since is None else since
                yield Evidence(accounted_until=until, accounted_from=known)
                self._accounted_until = until
                return
            self._last_success, self._usage_error = at, read.accounted.error
            if self._client is not None:
                self._client.turn()
            yield replace(read.evidence, accounted_from=known)
            self._accounted_until = read.accounted.until
            self._identity.committed(read.jobs)
            alive = {key for key, held in self._identity.held.items() if not held.ended}
            self._accounting.committed(read.accounted, alive)
            self._learned.keep_lasting()

    def targets(self) -> tuple[TargetStatus, ...]:
        """The state of the engine."""
        with self._lock:
            return (TargetStatus(self._section.url, "", self._last_success, self._error, self._noted),)

    @property
    def usage_error(self) -> str:
        """Why usage is behind, where the last evidence was whole without it; empty where it is not."""
        with self._lock:
            return self._usage_error

    def replaying(self) -> bool:
        """Whether any exporter plays a recording."""
        with self._lock:
            return self._replay

    def housekeeping(self) -> None:
        """Keep what was learned. Raises StoreError."""
        with self._lock:
            self._learned.keep()

    def close(self) -> None:
        """Keep what was learned, and close the connections. Raises StoreError."""
        try:
            self.housekeeping()
        finally:
            if self._client is not None:
                self._client.close()

    def _read(self, at: float, since: float | None, total: float | None) -> _Read:
        deadline, sooner = Deadline(self._section.pass_timeout), Sooner(self._section.pass_timeout)
        self._engine.take()  # of a pass that came to no end
        # Usage may be hours behind: what this alerter saw itself need not be looked for again.
        seen = since if self._last_success is None else self._last_success
        answers = self._ask_identity(at, 0.0 if seen is None else at - seen, sooner)
        self._check(answers)
        jobs = self._identity.update(answers, at)
        tables = Tables(at, jobs, self._identity.free, self._learned.values)
        failed = ask(self._engine, self._evidence_queries, at, self._fold(tables), deadline=sooner)
        for query, error in failed.items():
            if not query.window and not query.optional:
                raise SourceError(error)
        tables.failed.update(query.window for query in failed if query.window)
        accounted = self._accounting.account(at, since, deadline, total=total)
        self._note(
            twice(answers),
            *self._pace.update(answers, at),
            self._engine.take(),
            f"{len(failed)} queries have no answer: {next(iter(failed.values()))}" if failed else "",
            accounts.ahead(since, at, self._section.scrape_interval),
            f"usage is behind, and will be caught up: {accounted.error}" if accounted.error else "",
        )
        if self._error:
            self._error, self._whole_from = "", at
        devices = DeviceEvidence(tables, self._identity.sights, self._lengths, self._identity.gpus)
        items = list(self._jobs(tables, accounted.growth))
        evidence = Evidence(
            jobs=[item for item in items if not is_unowned(item.job)],
            unowned=[item for item in items if is_unowned(item.job) and item.job.gpus],
            gpus=list(devices.gpus()),
            nodes=list(devices.nodes()),
            accounted_until=accounted.until,
            accounted_total=accounted.total,
        )
        return _Read(jobs, accounted, evidence)

    def _ask_identity(self, at: float, since: float, deadline: Deadline) -> Answers:
        answers = Answers()
        back = scope.lookback(self._settings, since)
        asked = [q for shard in self._shards for q in self._catalogue.identity(self._settings, back=back, shard=shard)]
        for error in ask(self._engine, asked, at, answers.fold, deadline=deadline, all_needed=True).values():
            # Some of the allocations would pass for all of them.
            raise SourceError(error)
        return answers

    def _check(self, answers: Answers) -> None:
        wrong = [scale for (scale,), _ in answers.items("scales") if not _same(scale, self._settings.time_scale)]
        if wrong:
            scale = printable(min(wrong), 20)
            raise SourceError(f"exporters run at time scale {scale}, the alerter at {self._settings.time_scale:g}")
        if not any(vector.keys for _, vector in answers.vectors["visible"]):
            raise SourceError(
                f"the engine has no {self._catalogue.PRESENCE}: it scrapes none of the exporters, none of them can "
                "read its GPUs, or tenant, matchers or shards are wrong"
            )
        self._replay = any(value > 0 for _, value in answers.items("replays"))

    def _note(self, *notes: str) -> None:
        noted = "; ".join(filter(None, notes))
        if noted and noted != self._noted:
            log.warning("%s", noted)
        self._noted = noted

    def _fold(self, tables: Tables) -> Fold:
        self._learned.begin()

        def fold(query: Query, answer: Vector) -> None:
            if query.optional:
                self._learned.fold(query, answer)
            else:
                tables.fold(query, answer)

        return fold

    def _usage_queries(self, span: float) -> list[Query]:
        shards, catalogue = self._shards, self._catalogue
        return [query for shard in shards for query in catalogue.accounts(self._settings, span=span, shard=shard)]

    def _jobs(self, tables: Tables, growth: Growth) -> Iterator[JobEvidence]:
        """Every job that holds GPUs or has just ended, and those that came and went since the last pass."""
        identity, at, consumed = self._identity, tables.at, growth.consumption()
        windows = Windows(tables, self._lengths.every, self._whole_from)
        described = partial(describe, kinds=self._settings.kinds, uneven_by_design=self._settings.uneven_by_design)
        self._watch_loading(tables)
        self._watch_memory(tables)
        for known in tables.jobs:
            start = identity.starts.get(known.key, known.watched_from)
            owner = identity.owners.get(known.key) or {"cluster": known.key[0], "workload": known.key[1]}
            gpus = tuple(held.gpu for _, held in known.held)
            first = identity.first_processes.get(known.key)
            ended = None if known.ended is None else growth.end_of(known.key, known.ended)
            yield JobEvidence(
                job=described(
                    owner,
                    job_id=known.id,
                    gpus=gpus,
                    start=start,
                    start_told=known.key in identity.starts,
                    first_process=first,
                    labels=identity.labels.get(known.key, {}),
                ),
                at=at,
                window=partial(windows.of, known),
                watched_from=known.watched_from,
                memory_grew_at=self._loading.grew_at(known.key),
                memory_peak=self._peaks.of(known.key),
                ended=ended,
                visible=known.visible,
                recent=tuple(consumed.pop(known.key, ())),
                longest=self._lengths.every[-1],
            )
        for key, recent in consumed.items():
            owner = growth.owners.get(key) or {"cluster": key[0], "workload": key[1]}
            ended = growth.end_of(key, at)
            yield JobEvidence(
                job=described(owner, job_id=job_id(*key), gpus=(), start=ended, start_told=False),
                at=at,
                window=_nothing,
                watched_from=at,
                ended=ended,
                recent=tuple(recent),
            )

    def _watch_loading(self, tables: Tables) -> None:
        """Only jobs that may still be loading."""
        longest = self._settings.judging.grace.longest_loading
        window = self._lengths.held[0]
        used, total = cells(tables.column(tables.rows, "memory_used", window)), tables.totals()
        self._loading.keep({job.key for job in tables.jobs})
        for job in tables.jobs:
            told = self._identity.starts.get(job.key, 0.0)
            # The first process may yet be that of the run before.
            start = max(self._identity.first_processes.get(job.key, 0.0), told)
            if tables.at - start <= longest:
                begin, end = tables.places[job.id]
                self._loading.watch(job, told, used[begin:end], total[begin:end], tables.at)

    def _watch_memory(self, tables: Tables) -> None:
        used, total = cells(tables.column(tables.rows, "memory_used", self._lengths.memory)), tables.totals()
        self._peaks.keep({job.key for job in tables.jobs})
        for job in tables.jobs:
            begin, end = tables.places[job.id]
            start = max(self._identity.starts.get(job.key, 0.0), job.watched_from)
            self._peaks.take(job.key, start, used[begin:end], total[begin:end], tables.at)


def _nothing(length: float) -> WindowEvidence:
    return WindowEvidence(length, ())


def _same(scale: str, expected: float) -> bool:
    try:
        return float(scale) == expected
    except ValueError:
        return False
