"""The account of one workload on one device: what it held, used and wasted, in GPU-seconds.

A MIG instance counts as the share of its GPU's compute slices that it has, and a device that k workloads hold counts
1/k for each: added up over devices and workloads, nothing is counted twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field, replace

from dutycycle_exporter.contract import UTILIZATION_BUCKETS
from dutycycle_exporter.gaps import IdleGaps
from dutycycle_exporter.model import Allocation, GpuReading
from dutycycle_exporter.tenures import LATEST
from dutycycle_exporter.views import OwnedView


@dataclass(slots=True)
class OwnedAccount:
    """Counters from `created` on, in seconds times share. `ended` is when the allocation was first missed, `complete`
    when everything had been told of it.
    """

    allocation: Allocation
    gaps: IdleGaps
    created: float
    ended: float | None = None
    complete: float | None = None
    share: float = 1.0
    memory: float | None = None
    processes: int | None = None
    allocated: float = 0.0
    observed: float = 0.0
    busy: float = 0.0
    energy: float | None = None
    weighted_utilization: float = 0.0
    active: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    throttle: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    told: dict[tuple[str, str], float] = field(default_factory=dict)
    """Since when the device has told of its energy, of each unit and each reason of throttling."""
    buckets: list[float] = field(default_factory=lambda: [0.0] * (len(UTILIZATION_BUCKETS) + 1))

    def remember(self, new: Allocation) -> None:
        """Take what is known now, with the times that were known before where they are not any more.

        A later start is another run of the same job: it was requeued, and nothing of the first run holds for it.
        """
        old = self.allocation
        if old.start is None or new.start is None or new.start <= old.start:
            new = replace(
                new,
                start=old.start if new.start is None else new.start,
                first_process=old.first_process if new.first_process is None else new.first_process,
            )
        self.allocation = new

    def credit(self, start: float, end: float, utilization: float, *, share: float, part: float) -> None:
        """A measured stretch of time in which it had `share` of the GPU's time and did `part` of the GPU's work."""
        seconds = share * (end - start)
        self.observed += seconds
        self.busy += part * utilization * (end - start)
        self.buckets[bisect_left(UTILIZATION_BUCKETS, utilization)] += seconds
        self.weighted_utilization += seconds * utilization
        self.gaps.add(start, end, utilization, share)

    def tell(self, kind: str, name: str, now: float) -> None:
        """The device tells this counter, from now on at the latest. It begins at 0, as all of the workload's do."""
        if self.complete is not None:
            return
        self.told.setdefault((kind, name), now)
        if kind == "energy":
            self.energy = self.energy or 0.0
        else:
            (self.active if kind == "active" else self.throttle)[name] += 0.0

    def drop_unmeasured_energy(self) -> None:
        """Drop an energy of 0 when the counter turns out to be stuck: no reading measured it."""
        if self.energy == 0:
            self.energy = None
            self.told.pop(("energy", ""), None)

    def resume(self) -> None:
        """The device is, or is again, allocated to it."""
        self.ended = self.complete = None

    def settle(self, now: float, counted_until: float) -> None:
        """One that has ended is complete once all counters were read after that."""
        if self.ended is None:
            return
        self.gaps.finish()
        if self.complete is None and (counted_until >= self.ended or now - self.ended >= LATEST):
            self.complete = now

    def over(self, now: float, hold: float) -> bool:
        """Whether its series were shown long enough: of one that lived for less than `hold` only zeros have been."""
        youngest = max(self.created, *self.told.values()) if self.told else self.created
        return self.complete is not None and now - max(self.complete, youngest + hold) > hold

    def view(self, device: GpuReading, index: int | None, now: float, hold: float) -> OwnedView:
        """What a scrape shows. PromQL's increase() loses what a series holds at its first scrape: a new one is at 0."""
        new = now - self.created < hold
        shown = 0.0 if new else 1.0
        held = self.ended is None

        def since_told(kind: str, name: str, value: float) -> float:
            return 0.0 if now - max(self.created, self.told.get((kind, name), self.created)) < hold else value

        return OwnedView(
            gpu_uuid=device.uuid,
            mig=device.mig,
            index=index,
            model=device.model,
            workload=self.allocation.workload,
            containers=self.allocation.containers,
            share=self.share if held else None,
            start=self.allocation.start,
            first_process=self.allocation.first_process,
            memory=self.memory if held else None,
            processes=self.processes if held else None,
            allocated=shown * self.allocated,
            observed=shown * self.observed,
            busy=shown * self.busy,
            energy=None if self.energy is None else since_told("energy", "", self.energy),
            active=tuple((unit, since_told("active", unit, seconds)) for unit, seconds in self.active.items()),
            throttle=tuple((one, since_told("throttle", one, seconds)) for one, seconds in self.throttle.items()),
            gaps=(0.0,) * 4 if new else tuple(self.gaps.seconds),
            buckets=(0.0,) * len(self.buckets) if new else tuple(self.buckets),
            weighted_utilization=shown * self.weighted_utilization,
        )
