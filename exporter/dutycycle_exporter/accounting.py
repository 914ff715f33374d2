"""Integrates snapshots into counters: per device, and per workload on a device. No I/O and no clock: time is the
snapshots', by the clock that nobody sets. The time of day comes in with the starts of allocations, and goes out with
what is shown as a time. A device is a GPU, or a MIG instance of one.

A device's duty cycle comes as spans of measured time. Each span is credited to whoever held the device at that time, so
that busy / observed over any range is the utilization over that range, with nothing lost between scrapes, and time that
was not measured counted nowhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dutycycle_exporter.contract import INTEGRATED
from dutycycle_exporter.departed import DepartedProcesses
from dutycycle_exporter.gaps import IDLE_UTILIZATION, IdleGaps
from dutycycle_exporter.meters import Meter, Rate
from dutycycle_exporter.model import Activity, Allocation, GpuReading, Ownership, Snapshot, Span, Xid
from dutycycle_exporter.owned import OwnedAccount
from dutycycle_exporter.shares import Parts, division, memory_of, processes_of
from dutycycle_exporter.tenures import LATEST, Tenure, Tenures
from dutycycle_exporter.views import DeviceView, View, XidView

_STEP = 0.1
"""Seconds by which the time of day is at least set: what is less may lie between the readings of two clocks, and would
have every time that is shown change with every snapshot.
"""

_MOST_XIDS = 1024
"""Pairs of GPU and code that are counted: more there are not, unless something is wrong."""


@dataclass(slots=True)
class _Device:
    """The account of one device, and of the workloads that hold it or held it a moment ago."""

    reading: GpuReading
    departed: DepartedProcesses
    busy: float = 0.0
    observed: float = 0.0
    last_busy: float | None = None
    measured_until: float = float("-inf")
    active_until: float = float("-inf")
    energy: Meter = field(default_factory=Meter)
    throttle: defaultdict[str, Meter] = field(default_factory=lambda: defaultdict(Meter))
    power: float | None = None
    metered: float | None = None
    """Mean power by the energy counter, between its last two readings; None where the last turn's failed."""
    owned: dict[str, OwnedAccount] = field(default_factory=dict)
    tenures: Tenures = field(default_factory=Tenures)

    def holders(self, tenure: Tenure) -> Iterator[OwnedAccount]:
        """The accounts of those who held the device, but of those whose series have ended since."""
        return (self.owned[workload] for workload in tenure.holders if workload in self.owned)

    def share(self, tenure: Tenure) -> float:
        """Each holder's of the whole GPU's time."""
        return self.reading.slices * tenure.share

    @property
    def counted_until(self) -> float:
        """Until when its energy and its throttle counters were read, which are not at each turn; infinity where it has
        none. Spans and units are told a turn or two late at most, for which the hold time is enough.
        """
        meters = (self.energy, *self.throttle.values())
        return min((meter.until for meter in meters if meter.until is not None), default=float("inf"))


@dataclass(slots=True)
class _Errors:
    """How often a GPU reported an XID; `created` is when its series began."""

    created: float
    count: int = 0
    last: float = 0.0


class Accounts:
    """All counters. `hold` is in wall seconds; `time_scale` divides the bounds of idle gaps."""

    def __init__(self, *, hold: float, time_scale: float = 1.0) -> None:
        self.hold = hold
        self._time_scale = time_scale
        self._devices: dict[str, _Device] = {}
        self._xids: dict[tuple[str, int], _Errors] = {}
        self._previous: float | None = None
        self._day = 0.0
        """Seconds by which the time of day is ahead of the clock that nobody sets."""

    def update(self, snapshot: Snapshot, ownership: Ownership) -> View:
        """Take a snapshot and whose the GPUs are at its instant. One that is not newer changes nothing."""
        now = snapshot.at
        day = self._day
        if abs(snapshot.t - now - day) > _STEP:
            self._day = snapshot.t - now
        if self._previous is None or now > self._previous:
            by_device: defaultdict[str, list[Allocation]] = defaultdict(list)
            for allocation in ownership.allocations:
                by_device[allocation.device].append(allocation)
            displaced: defaultdict[str, set[str]] = defaultdict(set)
            for key, workload in ownership.displaced:
                displaced[key].add(workload)
            readings = {reading.key: reading for reading in snapshot.gpus}
            for key, reading in readings.items():
                if key not in self._devices:
                    self._devices[key] = _Device(reading, DepartedProcesses(self._time_scale))
            for key, device in self._devices.items():
                self._hand_over(device, by_device[key], displaced[key], now, day)
                self._measure(device, readings.get(key), ownership, now)
                self._settle(device, displaced[key], now)
            self._forget_instances(readings)
            self._previous = now
        self._count(snapshot.xids, now)
        return self._view(snapshot, ownership)

    def _hand_over(
        self, device: _Device, allocations: list[Allocation], displaced: set[str], now: float, day: float
    ) -> None:
        """Begin and end ownership, and count the time for which it was held since the previous snapshot; `day` is by
        how much the time of day was ahead then.
        """
        present = {allocation.workload.id: allocation for allocation in allocations}
        for workload, owned in device.owned.items():
            if owned.ended is None and workload not in present:
                owned.ended = now
        for workload, allocation in present.items():
            owned = device.owned.setdefault(workload, OwnedAccount(allocation, IdleGaps(self._time_scale), created=now))
            owned.resume()
            owned.share = device.reading.slices / len(present)
            owned.remember(allocation)
        before = now if self._previous is None else self._previous
        starts = {
            workload: None if allocation.start is None else self._began(allocation.start, before, now, day)
            for workload, allocation in present.items()
        }
        for tenure in device.tenures.hand_over(starts, before, now, displaced):
            for owned in device.holders(tenure):
                owned.allocated += device.share(tenure) * tenure.length

    def _began(self, start: float, before: float, now: float, day: float) -> float:
        """When an allocation began that says so by the time of day, which was set since `before`, it may be."""
        old, new = start - day, start - self._day
        return old if before < old <= now and not before < new <= now else new

    def _measure(self, device: _Device, reading: GpuReading | None, ownership: Ownership, now: float) -> None:
        """Credit what was measured. `reading` is None for a device that NVML does not show: its allocations go on."""
        if reading is None:
            for owned in device.owned.values():
                owned.memory = owned.processes = None
            return
        device.reading = reading
        device.departed.update(reading, ownership, now, self._day)
        _credit_energy(device, now)
        _credit_throttle(device, now)
        holding = [workload for workload, owned in device.owned.items() if owned.ended is None]
        parts_of = division(reading.processes, ownership, holding, device.owned)
        for span in _after(reading.spans, device.measured_until):
            device.busy += span.utilization * (span.end - span.start)
            device.observed += span.end - span.start
            device.measured_until = span.end
            if span.utilization > IDLE_UTILIZATION:
                device.last_busy = span.end
            for tenure in device.tenures.during(span.start, span.end):
                _credit(device, tenure, span.utilization, parts_of(tenure.holders))
        if reading.activity is not None:
            _credit_activity(device, reading.activity, parts_of, now)
        for workload, owned in device.owned.items():
            mine = processes_of(workload, reading.processes, ownership)
            owned.processes = None if mine is None else len(mine)
            owned.memory = memory_of(mine)

    def _settle(self, device: _Device, displaced: set[str], now: float) -> None:
        """Let go of what is over: the gaps of workloads that ended, series that were shown long enough, the past. The
        displaced keep their counters.
        """
        device.tenures.forget(now - LATEST)
        counted_until = device.counted_until
        for workload, owned in list(device.owned.items()):
            owned.settle(now, counted_until)
            if workload not in displaced and owned.over(now, self.hold):
                del device.owned[workload]

    def _forget_instances(self, shown: Mapping[str, GpuReading]) -> None:
        """A MIG instance that was taken apart does not come back under its UUID; a GPU that is lost may."""
        gone = [
            key for key, device in self._devices.items() if device.reading.mig and key not in shown and not device.owned
        ]
        for key in gone:
            del self._devices[key]

    def _count(self, xids: Iterable[Xid], now: float) -> None:
        for xid in xids:
            key = xid.gpu_uuid, xid.code
            if key in self._xids or len(self._xids) < _MOST_XIDS:
                errors = self._xids.setdefault(key, _Errors(created=now))
                errors.count += 1
                errors.last = xid.t - self._day

    def _view(self, snapshot: Snapshot, ownership: Ownership) -> View:
        shown = {reading.key for reading in snapshot.gpus}
        return View(
            snapshot=snapshot,
            ownership=ownership,
            devices=tuple(
                DeviceView(
                    reading=device.reading,
                    busy=device.busy if device.observed else None,
                    observed=device.observed or None,
                    last_busy=None if device.last_busy is None else device.last_busy + self._day,
                    power=device.power,
                    departed=device.departed.shown(),
                )
                for key, device in self._devices.items()
                if key in shown
            ),
            owned=tuple(
                owned.view(device.reading, snapshot.at, self.hold)
                for device in self._devices.values()
                for owned in device.owned.values()
            ),
            xids=tuple(
                # As a workload's new series this one is at 0 at first, or PromQL's increase() would miss the first XID.
                XidView(
                    gpu_uuid,
                    code,
                    0 if snapshot.at - errors.created < self.hold else errors.count,
                    errors.last + self._day,
                )
                for (gpu_uuid, code), errors in self._xids.items()
            ),
        )


def _after(spans: Iterable[Span], until: float) -> list[Span]:
    """What of the spans is later than what was counted already: a child that was replaced tells the past again."""
    later = []
    for span in spans:
        start = max(span.start, until)
        if span.end > start:
            later.append(span if start == span.start else Span(start, span.end, span.utilization))
            until = span.end
    return later


def _credit(device: _Device, tenure: Tenure, utilization: float, mine: Mapping[str, float]) -> None:
    """Give a stretch of measured time to those who held the device, by their share of its time and of its work."""
    for owned in device.holders(tenure):
        part = device.reading.slices * mine[owned.allocation.workload.id]
        owned.credit(tenure.start, tenure.end, utilization, share=device.share(tenure), part=part)


def _credit_activity(device: _Device, activity: Activity, parts_of: Parts, now: float) -> None:
    """Give the time in which the device's units worked to those who held it, by their part of its work."""
    start = max(activity.start, device.active_until)
    device.active_until = max(activity.end, device.active_until)
    units = [(unit, ratio) for unit, ratio in activity.units if unit in INTEGRATED]
    for unit, _ in units:
        _tell(device, "active", unit, now)
    for tenure in device.tenures.during(start, activity.end) if units else ():
        mine = parts_of(tenure.holders)
        for owned in device.holders(tenure):
            seconds = device.reading.slices * mine[owned.allocation.workload.id] * tenure.length
            for unit, ratio in units:
                owned.active[unit] += ratio * seconds


def _tell(device: _Device, kind: str, name: str, now: float) -> None:
    for owned in device.owned.values():
        owned.tell(kind, name, now)


def _credit_energy(device: _Device, now: float) -> None:
    """Joules since the previous reading, to those who held the device meanwhile; sets the mean power."""
    energy, name = device.reading.energy, ("energy", "")
    if name in device.reading.stopped:
        device.energy.forget()
        device.metered = None
    elif energy is None:
        device.energy.miss()
        if device.energy.until is not None:
            _tell(device, *name, now)
        device.metered = None
    elif name in device.reading.carried:
        _tell(device, *name, now)
        device.energy.carry()
    else:
        _tell(device, *name, now)
        watts = device.energy.read(now, energy)
        device.metered = None if watts is None else watts.per_second
        if watts is not None:
            _share_energy(device, watts)
    device.power = device.reading.power if device.metered is None else device.metered


def _share_energy(device: _Device, watts: Rate) -> None:
    for tenure in device.tenures.during(watts.start, watts.end):
        for owned in device.holders(tenure):
            owned.energy = (owned.energy or 0.0) + watts.per_second * tenure.length * device.share(tenure)


def _credit_throttle(device: _Device, now: float) -> None:
    """Seconds for which the clocks were held down, to those who held the device meanwhile."""
    told = {reason for reason, _ in device.reading.throttle}
    for reason, meter in device.throttle.items():
        if reason not in told:
            meter.miss()
            if meter.until is not None:
                _tell(device, "throttle", reason, now)
    for reason, seconds in device.reading.throttle:
        _tell(device, "throttle", reason, now)
        if ("throttle", reason) in device.reading.carried:
            device.throttle[reason].carry()
            continue
        rate = device.throttle[reason].read(now, seconds)
        if rate is None or not rate.per_second:
            continue
        for tenure in device.tenures.during(rate.start, rate.end):
            for owned in device.holders(tenure):
                # A counter that is read a little late may seem to have run faster than time.
                owned.throttle[reason] += min(1.0, rate.per_second) * tenure.length * device.share(tenure)
