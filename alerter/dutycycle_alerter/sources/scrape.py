"""The `scrape` source: reads the exporters itself, keeps their counters in the store, answers with evidence of jobs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from queue import Empty, SimpleQueue
from time import monotonic

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.model import Evidence
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.devices import Devices
from dutycycle_alerter.sources.exposition import Exposition, parse
from dutycycle_alerter.sources.fetch import Fetcher
from dutycycle_alerter.sources.fleet import LONGEST_WINDOW, Fleet
from dutycycle_alerter.sources.resolving import MOST_ADDRESSES, Name, Resolved
from dutycycle_alerter.sources.targets import Target, Targets
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
"""What was read, as of when, and why nothing was."""


class ScrapeSource:
    """Thread-safe: scrapes and passes come from different threads of the scheduler.

    `settings` are scaled (wall seconds). `clock` gives wall time, `name` what resolves a target's name.
    """

    def __init__(
        self,
        settings: Settings,
        database: Transactions,
        clock: Callable[[], float],
        name: Callable[[str, float], Name] = Name,
    ) -> None:
        self._settings = settings
        self._database = database
        self._clock = clock
        # A pass asks for the targets' state while it holds the evidence.
        self._lock = threading.RLock()
        self._targets = Targets(settings.source, name)
        targets = MOST_ADDRESSES if self._targets.names else len(settings.source.targets)
        self._fetcher = Fetcher(settings.source.timeout, hosts=targets)
        self._workers = ThreadPoolExecutor(max_workers=min(_MOST_AT_ONCE, targets or 1), thread_name_prefix="scrape")
        self._reading: dict[Future[_Answer], Target] = {}
        self._heard: SimpleQueue[Future[_Answer] | Resolved] = SimpleQueue()
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
            loading=settings.judging.grace.longest_loading,
        )

    def restore(self) -> None:
        """Go on from the counters that the store kept. Raises StoreError."""
        now = self._clock()
        since = now - LONGEST_WINDOW / self._settings.time_scale
        with self._database.read() as connection, self._lock:
            take_time(connection)
            # What a store was filled from a replay with is marked so before its exporter answers again.
            self._targets.assume(load_status(connection, self._clock()).replay)
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
            self._targets.expire()
        for name in self._targets.names:
            name.ask(self._heard.put)
        busy = {id(target) for target in self._reading.values()}
        self._ask(target for target in self._targets if id(target) not in busy)
        answers = []
        for heard in self._arrivals():
            if isinstance(heard, Resolved):
                with self._lock:
                    new = self._targets.take(heard, self._clock())
                self._ask(new)
                continue
            target, (exposition, t, error) = self._reading.pop(heard), heard.result()
            with self._lock:
                if self._targets.answered(target, exposition, t, error) and exposition is not None:
                    self._fleet.ingest(exposition, t)
                    answers.append((exposition, t))
        with self._lock:
            if self._clock() - self._saved_at >= self._settings.source.resolution:
                self._save()
                self._saved_at = self._clock()
            self._save_now(answers)

    def _ask(self, targets: Iterable[Target]) -> None:
        for target in targets:
            reading = self._workers.submit(self._read, target)
            self._reading[reading] = target
            reading.add_done_callback(self._heard.put)

    def _arrivals(self) -> Iterator[Future[_Answer] | Resolved]:
        """What comes in until the next round begins. The resolver alone holds a round up no longer than a time-out."""
        began, source = monotonic(), self._settings.source
        while self._reading or any(name.asked for name in self._targets.names):
            left = began + (source.interval if self._reading else min(source.interval, source.timeout)) - monotonic()
            try:
                yield self._heard.get(timeout=max(0.0, left))
            except Empty:
                return

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
        """Each exporter's state, and that of each name."""
        with self._lock:
            return self._targets.status()

    def replaying(self) -> bool:
        """Whether any exporter plays a recording."""
        with self._lock:
            return self._targets.replaying()

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
        self._targets.rewind(rewound_to)

    def _read(self, target: Target) -> _Answer:
        host = "" if target.name is None else target.name.host_header
        # As of the question: where this process is stopped in between, the answer is as old as the stop is long. Were
        # it of now, all that the counters grew by meanwhile would fall into the next few seconds.
        asked = self._clock()
        try:
            exposition = parse(self._fetcher.get(target.url, host=host))
        except SourceError as error:
            return None, asked, str(error)
        expected = self._settings.time_scale
        if exposition.time_scale != expected:
            mismatch = f"the exporter runs at time scale {exposition.time_scale:g}, the alerter at {expected:g}"
            return None, asked, mismatch
        # A clock that was set back in between shows no later time than it does now.
        return exposition, min(asked, self._clock()), ""

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
        rows = [row for exposition, t in answers for row in _now_rows(exposition, t, self._fleet.devices)]
        missing = {node: lost for exposition, t in answers for node, lost in _missing(exposition, t)}
        with self._database.write() as connection:
            nodes = {node for exposition, _ in answers for node in exposition.nodes}
            counters.save_now(connection, nodes, rows, missing)


def _missing(exposition: Exposition, t: float) -> Iterator[tuple[str, counters.Missing]]:
    """Yield each node whose PCI bus shows more GPUs than NVML does."""
    for node in exposition.nodes & exposition.expected.keys():
        if (lost := int(exposition.expected[node] - exposition.visible[node])) > 0:
            yield node, counters.Missing(lost, t, _owners(exposition))


def _owners(exposition: Exposition) -> dict[tuple[str, str, str], list[tuple[str, str, float]]]:
    """Return workload, user and share of each allocation, by node, GPU and MIG instance."""
    owners: dict[tuple[str, str, str], list[tuple[str, str, float]]] = {}
    for key, owned in sorted(exposition.owned.items()):
        if owned.share is not None:
            owners.setdefault(key[:3], []).append((key[3], owned.labels.get("user", ""), owned.share))
    return owners


def _now_rows(exposition: Exposition, t: float, devices: Devices) -> Iterator[dict[str, object]]:
    owners = _owners(exposition)
    for (node, uuid, mig), device in exposition.devices.items():
        if node in exposition.nodes:
            yield {
                "node": node,
                "gpu_uuid": uuid,
                "mig": mig,
                "gpu": device.index,
                "model": device.model,
                "scraped_at": t,
                "reading": device.readings | {"utilization": devices.utilization((node, uuid, mig))},
                "workloads": owners.get((node, uuid, mig), []),
            }
