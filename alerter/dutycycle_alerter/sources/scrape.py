"""The `scrape` source: reads the exporters itself, keeps their counters in the store, answers with evidence of jobs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.model import Evidence
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.exposition import Exposition, parse
from dutycycle_alerter.sources.fetch import Fetcher
from dutycycle_alerter.sources.fleet import LONGEST_WINDOW, Fleet
from dutycycle_alerter.store import counters
from dutycycle_alerter.store.database import get_meta, set_meta
from dutycycle_alerter.store.postgresql import take_time
from dutycycle_alerter.store.status import WATERMARK, load_status
from dutycycle_alerter.store.transactions import Transactions
from dutycycle_alerter.views import TargetStatus

log = logging.getLogger(__name__)


_MOST_AT_ONCE = 64
"""Exporters that are read at the same time: one that is silent takes a place until its time-out."""

LEARNED = "learned_of_models"
"""Key of what free GPUs of each model draw and hold."""

_Answer = tuple[Exposition | None, float, str]
"""What was read, when, and why nothing was."""


@dataclass(slots=True)
class _Target:
    """One exporter: its last answer, or why there is none."""

    url: str
    node: str = ""
    last_success: float | None = None
    error: str = ""
    replay: bool = False


class ScrapeSource:
    """Thread-safe: scrapes and passes come from different threads of the scheduler.

    `settings` are scaled (wall seconds). `clock` gives wall time.
    """

    def __init__(self, settings: Settings, database: Transactions, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._database = database
        self._clock = clock
        # A pass asks for the targets' state while it holds the evidence.
        self._lock = threading.RLock()
        targets = len(settings.source.targets)
        self._fetcher = Fetcher(settings.source.timeout, hosts=targets)
        self._workers = ThreadPoolExecutor(max_workers=min(_MOST_AT_ONCE, targets or 1), thread_name_prefix="scrape")
        self._targets = [_Target(url) for url in settings.source.targets]
        self._reading: dict[Future[_Answer], _Target] = {}
        self._accounted_until = 0.0
        self._saved_at = 0.0
        self._rewound_to: float | None = None
        self._learned: dict[str, dict[str, float]] = {}
        rules = settings.judging.rules
        self._fleet = Fleet(
            interval=settings.source.interval,
            resolution=settings.source.resolution,
            time_scale=settings.time_scale,
            kinds=settings.kinds,
            uneven_by_design=settings.uneven_by_design,
            device_window=max(rules.leaked_memory.window, rules.throttled.window),
        )

    def restore(self) -> None:
        """Go on from the counters that the store kept. Raises StoreError."""
        now = self._clock()
        since = now - LONGEST_WINDOW / self._settings.time_scale
        with self._database.read() as connection, self._lock:
            take_time(connection)
            # What a store was filled from a replay with is marked so before its exporter answers again.
            replay = load_status(connection, self._clock()).replay
            for target in self._targets:
                target.replay = replay
            self._accounted_until = get_meta(connection, WATERMARK) or 0.0
            self._rewound_to = self._fleet.restore(
                counters.load_series(connection, since),
                counters.load_hosts(connection, since),
                self._accounted_until or since,
                now,
            )
            self._fleet.devices.recall(get_meta(connection, LEARNED))

    def scrape(self) -> None:
        """Read every exporter once. One that does not answer is noted, its evidence kept. Raises StoreError.

        An answer counts as soon as it is there. One that is not there by the time of the next round is left to that
        round, which does not ask again: a silent exporter delays no other.
        """
        with self._lock:
            self._heed_clock()
        busy = {id(target) for target in self._reading.values()}
        for target in self._targets:
            if id(target) not in busy:
                self._reading[self._workers.submit(self._read, target)] = target
        answers = []
        with suppress(TimeoutError):
            for reading in as_completed(list(self._reading), timeout=self._settings.source.interval):
                target, (exposition, t, error) = self._reading.pop(reading), reading.result()
                with self._lock:
                    self._take(target, exposition, t, error)
                if exposition is not None:
                    answers.append((exposition, t))
        with self._lock:
            if self._clock() - self._saved_at >= self._settings.source.resolution:
                self._save()
                self._saved_at = self._clock()
            self._save_now(answers)

    @contextmanager
    def evidence(self, at: float) -> Iterator[Evidence]:
        """All that is known; nothing changes within the block. Leaving it without an error tells that the
        pass is in the store, and that its consumption is accounted for.
        """
        with self._lock:
            evidence = replace(self._fleet.evidence(at), accounted_from=self._accounted_until)
            yield evidence
            self._accounted_until = evidence.accounted_until or at
            self._fleet.committed(at)

    def targets(self) -> tuple[TargetStatus, ...]:
        """Each exporter's state."""
        with self._lock:
            return tuple(TargetStatus(t.url, t.node, t.last_success, t.error) for t in self._targets)

    def replaying(self) -> bool:
        """Whether any exporter plays a recording."""
        with self._lock:
            return any(target.replay for target in self._targets)

    def housekeeping(self) -> None:
        """Delete counters that are older than the retention. Raises StoreError."""
        counters.forget(self._database, self._clock() - self._settings.source.retention)

    def close(self) -> None:
        """Save what was scraped last, and end the connections. Raises StoreError."""
        self._workers.shutdown()
        self._fetcher.close()
        with self._lock:
            self._save()

    def _heed_clock(self) -> None:
        rewound_to = self._fleet.heed_clock(self._clock())
        if rewound_to is None:
            return
        log.warning("the clock was set back: what was scraped later than it shows now was let go")
        self._rewound_to = rewound_to if self._rewound_to is None else min(self._rewound_to, rewound_to)
        self._saved_at = min(self._saved_at, rewound_to)
        for target in self._targets:
            if target.last_success is not None:
                target.last_success = min(target.last_success, rewound_to)

    def _read(self, target: _Target) -> _Answer:
        try:
            exposition = parse(self._fetcher.get(target.url))
        except SourceError as error:
            return None, self._clock(), str(error)
        expected = self._settings.time_scale
        if exposition.time_scale != expected:
            mismatch = f"the exporter runs at time scale {exposition.time_scale:g}, the alerter at {expected:g}"
            return None, self._clock(), mismatch
        return exposition, self._clock(), ""

    def _take(self, target: _Target, exposition: Exposition | None, t: float, error: str) -> None:
        target.error = error
        if exposition is None:
            return
        target.last_success = t
        target.replay = exposition.replay
        target.node = min(exposition.nodes, default=target.node)
        self._fleet.ingest(exposition, t)

    def _save(self) -> None:
        series, hosts = self._fleet.unsaved()
        learned = self._fleet.devices.learned()
        with self._database.write() as connection:
            if self._rewound_to is not None:
                counters.forget_after(connection, self._rewound_to)
            counters.save(connection, series, hosts)
            if learned != self._learned:
                set_meta(connection, LEARNED, learned)
        self._rewound_to = None
        self._learned = learned
        self._fleet.saved(series, hosts)

    def _save_now(self, answers: list[tuple[Exposition, float]]) -> None:
        """What the page shows of GPUs; a silent exporter's rows stay, with the time of their scrape."""
        rows = [row for exposition, t in answers for row in _now_rows(exposition, t)]
        with self._database.write() as connection:
            counters.save_now(connection, {node for exposition, _ in answers for node in exposition.nodes}, rows)


def _now_rows(exposition: Exposition, t: float) -> Iterator[dict[str, object]]:
    owners: dict[tuple[str, str, str], list[tuple[str, str, float]]] = {}
    for key, owned in exposition.owned.items():
        if owned.share is not None:
            owners.setdefault(key[:3], []).append((key[3], owned.labels.get("user", ""), owned.share))
    for (node, uuid, mig), device in exposition.devices.items():
        if node in exposition.nodes:
            yield {
                "node": node,
                "gpu_uuid": uuid,
                "mig": mig,
                "gpu": device.index,
                "model": device.model,
                "scraped_at": t,
                "reading": device.readings,
                "workloads": sorted(owners.get((node, uuid, mig), [])),
            }
