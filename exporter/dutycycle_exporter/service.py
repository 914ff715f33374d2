"""The exporter's state: takes snapshots as they come, keeps what a scrape shows, and knows how healthy it is."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from dutycycle_exporter.accounting import Accounts
from dutycycle_exporter.loss import Loss
from dutycycle_exporter.lost_gpus import LostGpus
from dutycycle_exporter.memory import Memory
from dutycycle_exporter.model import Allocation, GpuReading, Ownership, Snapshot, Xid
from dutycycle_exporter.sysfs import expected_gpus
from dutycycle_exporter.tenures import LATEST
from dutycycle_exporter.views import View
from dutycycle_exporter.xid_counts import XidCounts

log = logging.getLogger(__name__)

_STALE_TURNS = 3
"""Sample intervals without a snapshot after which its readings are no longer shown."""
_SHORTEST_STALE = 2.0
_PCI_EVERY = 60.0


class Resolver(Protocol):
    """Says whose the GPUs are."""

    def resolve(self, gpus: Sequence[GpuReading], now: float) -> Ownership:
        """Allocations and the owners of processes right now."""
        ...


@dataclass(frozen=True, slots=True)
class CollectorRun:
    """The last run of one of the exporter's parts. `last_success` is by `elapsed()`, `duration` of the last run that
    ended by itself.
    """

    success: bool
    last_success: float | None = None
    duration: float | None = None


@dataclass(frozen=True, slots=True)
class State:
    """Everything that one scrape shows, at one instant: `now` (Unix seconds), when `elapsed()` was `elapsed`. `stale`
    tells that the view is too old to show readings of.
    """

    now: float
    elapsed: float
    view: View | None
    stale: bool
    expected: int | None
    started: float
    collectors: Mapping[str, CollectorRun]
    restarts: Mapping[str, int]
    read_failures: Mapping[tuple[str, str], int]
    dropped: Mapping[str, int]
    clamped: Mapping[str, int]
    attribution_failures: Mapping[tuple[str, str], int]


@dataclass(slots=True)
class _Counts:
    restarts: Counter[str] = field(default_factory=Counter)
    read_failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    clamped: Counter[str] = field(default_factory=Counter)
    attribution_failures: Counter[tuple[str, str]] = field(default_factory=Counter)


class Service:
    """Thread-safe: snapshots come from the supervisor's thread, scrapes from the server's.

    `interval` is the sample interval and `hold` the time for which new and ended series are held, both in wall seconds.
    `sources` tells how the resolver's own sources fare, those that it asks over a socket, and `driven` whether the
    kernel has a driver. `apart`: the exporter is in a pid namespace of its own, where NVML may show no process though
    there are some.
    """

    def __init__(
        self,
        resolver: Resolver,
        *,
        interval: float,
        hold: float,
        time_scale: float = 1.0,
        sysfs: Path = Path("/sys"),
        sources: Callable[[], Mapping[str, CollectorRun]] = dict,
        driven: Callable[[], bool] = lambda: False,
        apart: bool = False,
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] | None = None,
    ) -> None:
        self._resolver = resolver
        self._sources = sources
        self._driven = driven
        self._apart = apart
        self._stale_after = _stale_after(interval)
        self._time_scale = time_scale
        self._sysfs = sysfs
        self._clock = clock
        # For ages and lengths of time: a clock that nobody sets.
        self._elapsed = elapsed or clock
        self._accounts = Accounts(hold=hold, time_scale=time_scale)
        self._xids = XidCounts()
        self._memory = Memory()
        self._lock = threading.Lock()
        self._view: View | None = None
        self._seen_at: float | None = None
        self._loss: Loss | None = None
        self._collectors: dict[str, CollectorRun] = {}
        self._counts = _Counts()
        self._visible: int | None = None
        self._slow: frozenset[int] = frozenset()
        self._lost = LostGpus()
        self._excluded: tuple[str, ...] = ()
        self._expected: int | None = None
        self._expected_at = float("-inf")
        self._started = clock()

    def apply(self, *, interval: float, hold: float) -> None:
        """Go on with other settings. Counters go on."""
        self._stale_after = _stale_after(interval)
        self._accounts.hold = hold

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Account for a snapshot and show it from now on. Raises what the resolver raises, as long as nothing is known
        of the GPUs' owners.

        A snapshot that was held up in a call is older than what was counted while NVML was silent. It tells of now.
        """
        if self._view is not None and snapshot.at <= self._view.snapshot.at:
            snapshot = replace(snapshot, t=self._clock(), elapsed=self._elapsed())
        if self._apart:
            snapshot = replace(snapshot, gpus=tuple(map(_unseen, snapshot.gpus)))
        for xid in snapshot.xids:
            self.on_xid(xid)
        snapshot = replace(snapshot, xids=())
        if snapshot.excluded is not None and snapshot.excluded != self._excluded:
            self._excluded, self._expected_at = snapshot.excluded, float("-inf")
        expected = self._expect(self._elapsed())
        ownership = snapshot.ownership or self._owners_then(snapshot)
        view = self._accounts.update(snapshot, ownership, _missing(snapshot, expected))
        now = self._elapsed()
        with self._lock:
            loss, self._loss = self._loss, None
            self._view, self._expected, self._seen_at = view, expected, now
            self._visible = snapshot.visible
            self._collectors["nvml"] = CollectorRun(True, now, snapshot.duration)
            self._counts.read_failures.update(snapshot.failures)
            self._counts.dropped.update(snapshot.dropped)
            self._counts.clamped.update(snapshot.clamped)
        # Not under the lock: who does not read the log would keep scrapes waiting.
        if loss is not None:
            log.info("NVML is read again after %.0f s", now - loss.since)
        self._name_slow(snapshot)
        self._lost.watch(snapshot)
        self._memory.turn()

    def _name_slow(self, snapshot: Snapshot) -> None:
        """Say which GPUs take too long to be read with the others, once each: their series only lack values."""
        slow = frozenset(snapshot.slow)
        uuids = {gpu.index: gpu.uuid for gpu in snapshot.gpus}
        for index in sorted(slow - self._slow):
            log.warning(
                "GPU %d (%s) answers too slowly: it is asked once a minute. The kernel's log may have an XID of it",
                index,
                uuids.get(index, "which does not say its UUID"),
            )
        for index in sorted(self._slow - slow):
            log.info("GPU %d is no longer left out for answering too slowly", index)
        self._slow = slow

    def on_xid(self, xid: Xid) -> None:
        """Count an error that the driver reported: at once, as the snapshot that would tell of it may never come."""
        with self._lock:
            if not self._xids.add(xid, now=self._clock(), at=self._elapsed()):
                self._counts.dropped["xid"] += 1

    def on_loss(self, reason: str, text: str) -> None:
        """The child is gone or cannot read NVML: why."""
        now = self._elapsed()
        expected = self._expect(now)
        with self._lock:
            self._expected = expected
            self._counts.restarts[reason] += 1
            news = self._loss is None or self._loss.reason != reason
            if news:
                self._loss = Loss(reason, text, now)
            self._nvml_failed()
        if news:
            log.warning("%s", text)
        self.on_silence()

    def on_silence(self) -> None:
        """No snapshot has come for some time. Jobs begin and end all the same, whatever is known of the GPUs."""
        if not self._stale():
            return
        now = self._clock()
        # A recording tells whose the GPUs are with its snapshots only.
        recorded = None if self._view is None else self._view.snapshot.ownership
        ownership = recorded or self._resolve((), now)
        view = self._accounts.update(Snapshot(now, (), ownership=recorded, elapsed=self._elapsed()), ownership)
        with self._lock:
            self._view = view
            # Nothing of the GPUs is shown any more: who reads the page must not take that for what NVML said.
            self._nvml_failed()

    def _nvml_failed(self) -> None:
        self._collectors["nvml"] = replace(self._collectors.get("nvml") or CollectorRun(False), success=False)

    def _owners_then(self, snapshot: Snapshot) -> Ownership:
        """Whose the GPUs are, but for who began since: while this process was stopped snapshots waited in the pipe.

        Who held a GPU at the snapshot before is never one of those, whatever a clock that was set makes of its start.
        """
        found, now = self._resolve(snapshot.gpus, snapshot.t), self._clock()
        waited = self._elapsed() - snapshot.at
        known = () if self._view is None else self._view.ownership.allocations
        before = {(one.device, one.workload.id, one.start) for one in known}

        def began_since(one: Allocation) -> bool:
            if (one.device, one.workload.id, one.start) in before:
                return False
            # By then a start may seem too late to be true.
            return waited > LATEST if one.start is None else now - waited < one.start <= now

        return replace(found, allocations=tuple(one for one in found.allocations if not began_since(one)))

    def _resolve(self, gpus: Sequence[GpuReading], now: float) -> Ownership:
        """Whose the GPUs are; where that fails, whose they were. Raises what the resolver raises where nobody knows
        either.
        """
        began = time.perf_counter()
        try:
            ownership = self._resolver.resolve(gpus, now)
        except Exception:
            with self._lock:
                last = self._collectors.get("attribution") or CollectorRun(False)
                self._collectors["attribution"] = replace(last, success=False)
            if self._view is None:
                raise
            if last.success:
                log.exception("whose the GPUs are could not be found out; they stay with those who had them")
            return _as_before(self._view.ownership, gpus)
        with self._lock:
            self._collectors["attribution"] = CollectorRun(True, self._elapsed(), time.perf_counter() - began)
            self._counts.attribution_failures.update(ownership.failures)
        return ownership

    def _expect(self, now: float) -> int | None:
        """GPUs on the PCI bus, looked for now and then."""
        if now - self._expected_at < _PCI_EVERY:
            return self._expected
        self._expected_at = now
        return expected_gpus(self._sysfs, self._excluded)

    def state(self) -> State:
        """What a scrape shows now."""
        now, elapsed = self._clock(), self._elapsed()
        with self._lock:
            view = self._view
            if view is not None:
                xids = self._xids.shown(now=now, at=elapsed, hold=self._accounts.hold)
                view = replace(view, xids=xids)
            return State(
                now=now,
                elapsed=elapsed,
                view=view,
                stale=self._stale(),
                expected=self._expected,
                started=self._started,
                collectors={**self._collectors, **self._sources()},
                restarts=dict(self._counts.restarts),
                read_failures=dict(self._counts.read_failures),
                dropped=dict(self._counts.dropped),
                clamped=dict(self._counts.clamped),
                attribution_failures=dict(self._counts.attribution_failures),
            )

    def unready(self) -> str:
        """Why there is nothing to scrape yet; empty when there is."""
        with self._lock:
            if self._seen_at is None or (self._loss is not None and self._loss.reason == "released"):
                return "no snapshot yet" if self._loss is None else self._loss.text
            if self._visible == 0 and self._expected:
                return f"NVML shows no GPU, and the PCI bus has {self._expected}"
            return ""

    def unhealthy(self) -> str:
        """Why only a restart of the container or unit can help; empty while that is not so."""
        with self._lock:
            loss, seen = self._loss, self._seen_at is not None
        if loss is None:
            return ""
        return loss.needs_restart(
            self._elapsed(), time_scale=self._time_scale, had_devices=lambda: seen or self._driven()
        )

    def _stale(self) -> bool:
        return self._seen_at is None or self._elapsed() - self._seen_at > self._stale_after


def _missing(snapshot: Snapshot, expected: int | None) -> int | None:
    """How many GPUs the machine has of which the snapshot says nothing; None where that is not known, and in a
    recording, which is of another machine.
    """
    if expected is None or snapshot.visible is None or snapshot.ownership is not None:
        return None
    return max(0, expected - len({gpu.uuid for gpu in snapshot.gpus}))


def _as_before(ownership: Ownership, gpus: Iterable[GpuReading]) -> Ownership:
    """What holds on of an ownership as long as there is no newer one: nothing that counts or is measured. Whose the
    other processes are that these GPUs have is not known.
    """
    pids = {process.pid for gpu in gpus for process in (*(gpu.processes or ()), *gpu.graphics)}
    return replace(ownership, unresolved=frozenset(pids - ownership.pids.keys()), hosts=(), failures={})


def _unseen(gpu: GpuReading) -> GpuReading:
    """No process is not known where NVML does not show all of them."""
    return gpu if gpu.processes else replace(gpu, processes=None)


def _stale_after(interval: float) -> float:
    return max(_STALE_TURNS * interval, _SHORTEST_STALE)
