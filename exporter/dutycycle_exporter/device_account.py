"""The account of one device: a GPU, or a MIG instance of one. As `accounting`: no I/O and no clock.

A device's duty cycle comes as spans of measured time. Each span is credited to whoever held the device at that time, so
that busy / observed over any range is the utilization over that range, with nothing lost between scrapes, and time that
was not measured counted nowhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dutycycle_exporter.contract import INTEGRATED
from dutycycle_exporter.departed import DepartedProcesses
from dutycycle_exporter.gaps import IDLE_UTILIZATION, IdleGaps
from dutycycle_exporter.meters import Meter, Rate
from dutycycle_exporter.model import Activity, Allocation, GpuReading, Ownership, Span
from dutycycle_exporter.owned import OwnedAccount
from dutycycle_exporter.shares import Parts, division, memory_of, processes_of
from dutycycle_exporter.tenures import LATEST, Tenure, Tenures
from dutycycle_exporter.views import DeviceView


@dataclass(slots=True)
class DeviceAccount:
    """The account of one device, and of the workloads that hold it or held it a moment ago. `seen` is when NVML showed
    it last; None where it never has, and of the reading only the UUID is known.
    """

    reading: GpuReading
    departed: DepartedProcesses
    seen: float | None
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
    def index(self) -> int | None:
        """NVML's, as it was last; None where NVML never showed it."""
        return None if self.seen is None else self.reading.index

    @property
    def counted_until(self) -> float:
        """Until when its energy and its throttle counters were read, which are not at each turn; infinity where it has
        none. Spans and units are told a turn or two late at most, for which the hold time is enough.
        """
        meters = (self.energy, *self.throttle.values())
        return min((meter.until for meter in meters if meter.until is not None), default=float("inf"))

    def hand_over(
        self,
        allocations: Mapping[str, Allocation],
        starts: Mapping[str, float | None],
        displaced: Collection[str],
        *,
        before: float,
        now: float,
        time_scale: float,
    ) -> None:
        """Begin and end ownership, by workload, and count the time for which it was held since the snapshot `before`.
        `starts` are when the allocations began, by the clock of the snapshots.
        """
        for workload, owned in self.owned.items():
            if owned.ended is None and workload not in allocations:
                owned.ended = now
        for workload, allocation in allocations.items():
            owned = self.owned.setdefault(workload, OwnedAccount(allocation, IdleGaps(time_scale), created=now))
            owned.resume()
            owned.share = self.reading.slices / len(allocations)
            owned.remember(allocation)
        for tenure in self.tenures.hand_over(starts, before, now, displaced):
            for owned in self.holders(tenure):
                owned.allocated += self.share(tenure) * tenure.length

    def measure(self, reading: GpuReading | None, ownership: Ownership, now: float, day: float) -> None:
        """Credit what was measured. `reading` is None for a device that NVML does not show: its allocations go on.

        `day` is by how much the time of day is ahead.
        """
        if reading is None:
            for owned in self.owned.values():
                owned.memory = owned.processes = None
            return
        self.reading, self.seen = reading, now
        self.departed.update(reading, ownership, now, day)
        _credit_energy(self, now)
        _credit_throttle(self, now)
        holding = [workload for workload, owned in self.owned.items() if owned.ended is None]
        everyone = None if reading.processes is None else reading.processes + reading.graphics
        parts_of = division(everyone, ownership, holding, self.owned)
        for span in _after(reading.spans, self.measured_until):
            self.busy += span.utilization * (span.end - span.start)
            self.observed += span.end - span.start
            self.measured_until = span.end
            if span.utilization > IDLE_UTILIZATION:
                self.last_busy = span.end
            for tenure in self.tenures.during(span.start, span.end):
                _credit(self, tenure, span.utilization, parts_of(tenure.holders))
        if reading.activity is not None:
            _credit_activity(self, reading.activity, parts_of, now)
        for workload, owned in self.owned.items():
            mine = processes_of(workload, everyone, ownership)
            owned.processes = None if mine is None else len(mine)
            owned.memory = memory_of(mine)

    def settle(self, displaced: Collection[str], now: float, hold: float) -> None:
        """Let go of what is over: the gaps of workloads that ended, series that were shown long enough, the past. The
        displaced keep their counters.
        """
        self.tenures.forget(now - LATEST)
        counted_until = self.counted_until
        for workload, owned in list(self.owned.items()):
            owned.settle(now, counted_until)
            if workload not in displaced and owned.over(now, hold):
                del self.owned[workload]

    def view(self, day: float) -> DeviceView:
        """What a scrape shows of it."""
        return DeviceView(
            reading=self.reading,
            busy=self.busy if self.observed else None,
            observed=self.observed or None,
            last_busy=None if self.last_busy is None else self.last_busy + day,
            power=self.power,
            departed=self.departed.shown(),
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


def _credit(device: DeviceAccount, tenure: Tenure, utilization: float, mine: Mapping[str, float]) -> None:
    """Give a stretch of measured time to those who held the device, by their share of its time and of its work."""
    for owned in device.holders(tenure):
        part = device.reading.slices * mine[owned.allocation.workload.id]
        owned.credit(tenure.start, tenure.end, utilization, share=device.share(tenure), part=part)


def _credit_activity(device: DeviceAccount, activity: Activity, parts_of: Parts, now: float) -> None:
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


def _tell(device: DeviceAccount, kind: str, name: str, now: float) -> None:
    for owned in device.owned.values():
        owned.tell(kind, name, now)


def _credit_energy(device: DeviceAccount, now: float) -> None:
    """Joules since the previous reading, to those who held the device meanwhile; sets the mean power."""
    energy, name = device.reading.energy, ("energy", "")
    if name in device.reading.stopped:
        device.energy.forget()
        device.metered = None
        for owned in device.owned.values():
            owned.drop_unmeasured_energy()
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
        watts = device.energy.read(_counted_at(device, now), energy)
        device.metered = None if watts is None else watts.per_second
        if watts is not None:
            _share_energy(device, watts)
    device.power = device.reading.power if device.metered is None else device.metered


def _counted_at(device: DeviceAccount, now: float) -> float:
    """When the device's counters were read: a call may take seconds, and a snapshot wait for this process."""
    return now if device.reading.counted_at is None else device.reading.counted_at


def _share_energy(device: DeviceAccount, watts: Rate) -> None:
    for tenure in device.tenures.during(watts.start, watts.end):
        for owned in device.holders(tenure):
            owned.energy = (owned.energy or 0.0) + watts.per_second * tenure.length * device.share(tenure)


def _credit_throttle(device: DeviceAccount, now: float) -> None:
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
        rate = device.throttle[reason].read(_counted_at(device, now), seconds)
        if rate is None or not rate.per_second:
            continue
        for tenure in device.tenures.during(rate.start, rate.end):
            for owned in device.holders(tenure):
                # A counter that is read a little late may seem to have run faster than time.
                owned.throttle[reason] += min(1.0, rate.per_second) * tenure.length * device.share(tenure)
