"""Integrates snapshots into counters: per GPU, and per workload on a GPU. No I/O and no clock: time is the snapshots'.

A GPU's duty cycle comes as spans of measured time. Each span is credited to whoever held the GPU at that time, so that
busy / observed over any range is the utilization over that range, with nothing lost between scrapes, and time that was
not measured counted nowhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dutycycle_exporter.contract import UTILIZATION_BUCKETS
from dutycycle_exporter.gaps import IDLE_UTILIZATION, IdleGaps
from dutycycle_exporter.model import Allocation, GpuReading, Ownership, Process, Snapshot, Span
from dutycycle_exporter.tenures import LATEST, Tenure, Tenures
from dutycycle_exporter.views import DeviceView, OwnedView, View

_CLOCK_STEP = 1.0
"""Seconds by which time may seem to go back before it counts as a clock that was set back."""


@dataclass(slots=True)
class _Owned:
    """The account of one workload on one GPU."""

    allocation: Allocation
    gaps: IdleGaps
    created: float
    ended: float | None = None
    share: float = 1.0
    memory: float | None = None
    processes: int | None = None
    allocated: float = 0.0
    observed: float = 0.0
    busy: float = 0.0
    energy: float | None = None
    weighted_utilization: float = 0.0
    buckets: list[float] = field(default_factory=lambda: [0.0] * (len(UTILIZATION_BUCKETS) + 1))


@dataclass(slots=True)
class _Device:
    """The account of one GPU, and the workloads that hold it or held it a moment ago."""

    reading: GpuReading
    busy: float = 0.0
    observed: float = 0.0
    last_busy: float | None = None
    measured_until: float = float("-inf")
    energy_at: tuple[float, float] | None = None
    power: float | None = None
    owned: dict[str, _Owned] = field(default_factory=dict)
    tenures: Tenures = field(default_factory=Tenures)


class Accounts:
    """All counters. `hold` is in wall seconds; `time_scale` divides the bounds of idle gaps."""

    def __init__(self, *, hold: float, time_scale: float = 1.0) -> None:
        self._hold = hold
        self._time_scale = time_scale
        self._devices: dict[str, _Device] = {}
        self._previous: float | None = None

    def update(self, snapshot: Snapshot, ownership: Ownership) -> View:
        """Take a snapshot and whose the GPUs are at its instant. One that is not newer changes nothing, unless the
        clock was set back: then time counts from there, and what was counted stays.
        """
        now = snapshot.t
        if self._previous is not None and now < self._previous - _CLOCK_STEP:
            self._set_back(now)
        if self._previous is None or now > self._previous:
            by_gpu: defaultdict[str, list[Allocation]] = defaultdict(list)
            for allocation in ownership.allocations:
                by_gpu[allocation.device].append(allocation)
            readings = {gpu.uuid: gpu for gpu in snapshot.gpus}
            for uuid, reading in readings.items():
                self._devices.setdefault(uuid, _Device(reading))
            for uuid, device in self._devices.items():
                self._hand_over(device, by_gpu[uuid], now)
                self._measure(device, readings.get(uuid), ownership, now)
                self._settle(device, now)
            self._previous = now
        return self._view(snapshot, ownership)

    def _set_back(self, now: float) -> None:
        self._previous = now
        for device in self._devices.values():
            device.measured_until = now
            device.energy_at = None
            device.tenures.clear()
            for owned in device.owned.values():
                owned.created = min(owned.created, now)
                owned.ended = None if owned.ended is None else min(owned.ended, now)

    def _hand_over(self, device: _Device, allocations: list[Allocation], now: float) -> None:
        """Begin and end ownership, and count the time for which it was held since the previous snapshot."""
        present = {allocation.workload.id: allocation for allocation in allocations}
        for workload, owned in device.owned.items():
            if owned.ended is None and workload not in present:
                owned.ended = now
        for workload, allocation in present.items():
            owned = device.owned.setdefault(workload, _Owned(allocation, IdleGaps(self._time_scale), created=now))
            owned.ended = None
            owned.share = 1.0 / len(present)
            owned.allocation = _remember(owned.allocation, allocation)
        starts = {workload: allocation.start for workload, allocation in present.items()}
        before = now if self._previous is None else self._previous
        for tenure in device.tenures.hand_over(starts, before, now):
            for workload in tenure.holders:
                device.owned[workload].allocated += tenure.share * tenure.length

    def _measure(self, device: _Device, reading: GpuReading | None, ownership: Ownership, now: float) -> None:
        """Credit what was measured. `reading` is None for a GPU that NVML does not show: its allocations go on."""
        if reading is None:
            for owned in device.owned.values():
                owned.memory = owned.processes = None
            return
        device.reading = reading
        self._credit_energy(device, reading, now)
        work = _work(reading.processes, ownership.pids)
        for span in _after(reading.spans, device.measured_until):
            device.busy += span.utilization * (span.end - span.start)
            device.observed += span.end - span.start
            device.measured_until = span.end
            if span.utilization > IDLE_UTILIZATION:
                device.last_busy = span.end
            for tenure in device.tenures.during(span.start, span.end):
                _credit(device.owned, tenure, span.utilization, work)
        for workload, owned in device.owned.items():
            mine = _processes_of(workload, reading.processes, ownership)
            owned.processes = None if mine is None else len(mine)
            owned.memory = _memory(mine)

    def _settle(self, device: _Device, now: float) -> None:
        """Let go of what is over: the gaps of workloads that ended, series that were shown long enough, the past."""
        device.tenures.forget(max(device.measured_until, now - LATEST))
        for workload, owned in list(device.owned.items()):
            if owned.ended is None:
                continue
            owned.gaps.finish()
            # One that lived for less than the hold time was never shown but at 0.
            if now - max(owned.ended, owned.created + self._hold) > self._hold:
                del device.owned[workload]

    @staticmethod
    def _credit_energy(device: _Device, reading: GpuReading, now: float) -> None:
        """Joules since the previous reading, to those who held the GPU meanwhile; sets the mean power.

        None is known at the first reading, and where the counter went back.
        """
        device.power = reading.power
        last, device.energy_at = device.energy_at, None if reading.energy is None else (now, reading.energy)
        if last is None or reading.energy is None or reading.energy < last[1] or now <= last[0]:
            return
        device.power = (reading.energy - last[1]) / (now - last[0])
        for tenure in device.tenures.during(last[0], now):
            for owned in _holders(device.owned, tenure):
                owned.energy = (owned.energy or 0.0) + device.power * tenure.length * tenure.share

    def _view(self, snapshot: Snapshot, ownership: Ownership) -> View:
        shown = {gpu.uuid for gpu in snapshot.gpus}
        return View(
            snapshot=snapshot,
            ownership=ownership,
            devices=tuple(
                DeviceView(
                    reading=device.reading,
                    busy=device.busy if device.observed else None,
                    observed=device.observed or None,
                    last_busy=device.last_busy,
                    power=device.power,
                )
                for uuid, device in self._devices.items()
                if uuid in shown
            ),
            owned=tuple(
                self._owned_view(device, owned, snapshot.t)
                for device in self._devices.values()
                for owned in device.owned.values()
            ),
        )

    def _owned_view(self, device: _Device, owned: _Owned, now: float) -> OwnedView:
        # PromQL's increase() loses what a series holds at its first scrape: it is shown at 0 until it was scraped once.
        new = now - owned.created < self._hold
        return OwnedView(
            gpu_uuid=device.reading.uuid,
            index=device.reading.index,
            model=device.reading.model,
            workload=owned.allocation.workload,
            share=owned.share if owned.ended is None else None,
            start=owned.allocation.start,
            first_process=owned.allocation.first_process,
            memory=owned.memory if owned.ended is None else None,
            processes=owned.processes if owned.ended is None else None,
            allocated=0.0 if new else owned.allocated,
            observed=0.0 if new else owned.observed,
            busy=0.0 if new else owned.busy,
            energy=None if owned.energy is None else 0.0 if new else owned.energy,
            gaps=(0.0,) * 4 if new else tuple(owned.gaps.seconds),
            buckets=(0.0,) * len(owned.buckets) if new else tuple(owned.buckets),
            weighted_utilization=0.0 if new else owned.weighted_utilization,
        )


def _after(spans: Iterable[Span], until: float) -> list[Span]:
    """What of the spans is later than what was counted already: a child that was replaced tells the past again."""
    later = []
    for span in spans:
        start = max(span.start, until)
        if span.end > start:
            later.append(Span(start, span.end, span.utilization))
            until = span.end
    return later


def _holders(owned: Mapping[str, _Owned], tenure: Tenure) -> list[_Owned]:
    """The accounts of those who held a GPU, but of those whose series have ended since."""
    return [owned[workload] for workload in tenure.holders if workload in owned]


def _credit(owned: Mapping[str, _Owned], tenure: Tenure, utilization: float, work: Mapping[str, float] | None) -> None:
    """Give a stretch of measured time to those who held the GPU, by their share of its time and of its work."""
    seconds = tenure.share * tenure.length if tenure.holders else 0.0
    parts = _parts(tenure.holders, work)
    for one in _holders(owned, tenure):
        one.observed += seconds
        one.busy += parts[one.allocation.workload.id] * utilization * tenure.length
        one.buckets[bisect_left(UTILIZATION_BUCKETS, utilization)] += seconds
        one.weighted_utilization += seconds * utilization
        one.gaps.add(tenure.start, tenure.end, utilization, tenure.share)


def _work(processes: tuple[Process, ...] | None, pids: Mapping[int, str]) -> dict[str, float] | None:
    """How much each workload's processes did; None where that is not known of every process.

    Where all are one workload's it did everything: NVML need not say how much each did.
    """
    owners = {pids.get(process.pid) for process in processes or ()}
    if len(owners) == 1 and None not in owners:
        return {owner: 1.0 for owner in owners if owner is not None}
    work: defaultdict[str, float] = defaultdict(float)
    for process in processes or ():
        if process.utilization is None or (process.utilization > 0 and process.pid not in pids):
            return None
        if process.utilization > 0:
            work[pids[process.pid]] += process.utilization
    return work


def _parts(holders: Sequence[str], work: Mapping[str, float] | None) -> dict[str, float]:
    """Each holder's part of the GPU's work, 1 in sum: that of its processes where it is known, else an equal one.

    A holder without a process that works has 0, if others have some that do.
    """
    done = {holder: 0.0 if work is None else work.get(holder, 0.0) for holder in holders}
    total = sum(done.values())
    return {holder: mine / total if total > 0 else 1.0 / len(holders) for holder, mine in done.items()}


def _processes_of(workload: str, processes: tuple[Process, ...] | None, ownership: Ownership) -> list[Process] | None:
    """A workload's of the processes on a GPU. None where nobody knows: one whose owner was not found may be its."""
    if processes is None or any(process.pid in ownership.unresolved for process in processes):
        return None
    return [process for process in processes if ownership.pids.get(process.pid) == workload]


def _memory(processes: list[Process] | None) -> float | None:
    if processes is None or any(process.memory is None for process in processes):
        return None
    return sum(process.memory or 0.0 for process in processes)


def _remember(old: Allocation, new: Allocation) -> Allocation:
    """What is known now, with the times that were known before where they are not any more.

    A later start is another run of the same job: it was requeued, and nothing of the first run holds for it.
    """
    if old.start is not None and new.start is not None and new.start > old.start:
        return new
    return replace(
        new,
        start=old.start if new.start is None else new.start,
        first_process=old.first_process if new.first_process is None else new.first_process,
    )
