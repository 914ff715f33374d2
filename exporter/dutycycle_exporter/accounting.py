"""Integrates snapshots into counters: per device, and per workload on a device. No I/O and no clock: time is the
snapshots', by the clock that nobody sets. The time of day comes in with the starts of allocations, and goes out with
what is shown as a time. A device is a GPU, or a MIG instance of one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from dutycycle_exporter.departed import DepartedProcesses
from dutycycle_exporter.device_account import DeviceAccount
from dutycycle_exporter.model import Allocation, GpuReading, Ownership, Snapshot
from dutycycle_exporter.tenures import LATEST
from dutycycle_exporter.views import View

_STEP = 0.1
"""Seconds by which the time of day is at least set: what is less may lie between the readings of two clocks, and would
have every time that is shown change with every snapshot.
"""


class Accounts:
    """All counters. `hold` is in wall seconds; `time_scale` divides the bounds of idle gaps."""

    def __init__(self, *, hold: float, time_scale: float = 1.0) -> None:
        self.hold = hold
        self._time_scale = time_scale
        self._devices: dict[str, DeviceAccount] = {}
        self._previous: float | None = None
        self._day = 0.0
        """Seconds by which the time of day is ahead of the clock that nobody sets."""

    def update(self, snapshot: Snapshot, ownership: Ownership, missing: int | None = None) -> View:
        """Take a snapshot and whose the GPUs are at its instant. One that is not newer changes nothing.

        `missing` is how many GPUs the machine has beside those of the snapshot, None where that is not known: so many,
        less those that NVML showed before, have an account though it never showed them, as long as somebody holds them.
        """
        now = snapshot.at
        day = self._day
        if abs(snapshot.t - now - day) > _STEP:
            self._day = snapshot.t - now
        if self._previous is None or now > self._previous:
            self._account(snapshot, ownership, missing, now, day)
            self._previous = now
        return self._view(snapshot, ownership)

    def _account(self, snapshot: Snapshot, ownership: Ownership, missing: int | None, now: float, day: float) -> None:
        """`day` is by how much the time of day was ahead at the previous snapshot."""
        by_device: defaultdict[str, dict[str, Allocation]] = defaultdict(dict)
        for allocation in ownership.allocations:
            by_device[allocation.device][allocation.workload.id] = allocation
        displaced: defaultdict[str, set[str]] = defaultdict(set)
        for key, workload in ownership.displaced:
            displaced[key].add(workload)
        readings = {reading.key: reading for reading in snapshot.gpus}
        for key, reading in readings.items():
            if key not in self._devices:
                self._devices[key] = DeviceAccount(reading, DepartedProcesses(self._time_scale), now)
        self._take_unshown(by_device, readings, missing)
        before = now if self._previous is None else self._previous
        for key, device in self._devices.items():
            allocations = by_device[key]
            starts = {
                workload: None if allocation.start is None else self._began(allocation.start, before, now, day)
                for workload, allocation in allocations.items()
            }
            device.hand_over(allocations, starts, displaced[key], before=before, now=now, time_scale=self._time_scale)
            device.measure(readings.get(key), ownership, now, self._day)
            device.settle(displaced[key], now, self.hold)
        self._forget(readings, now)

    def _take_unshown(
        self,
        by_device: dict[str, dict[str, Allocation]],
        shown: Mapping[str, GpuReading],
        missing: int | None,
    ) -> None:
        """Open accounts of GPUs that somebody holds and NVML never showed: they were lost before the exporter began.

        Of more than are missing those count that were taken last: the others are of GPUs that are not there any more.
        """
        unshown = [
            key
            for key in by_device
            if key.startswith("GPU-")
            and key not in shown
            and (key not in self._devices or self._devices[key].seen is None)
        ]
        if missing is None:
            believed = [key for key in unshown if key in self._devices]
        else:
            unshown.sort(key=lambda key: max(one.start or 0.0 for one in by_device[key].values()), reverse=True)
            believed = unshown[: max(0, missing - self._lost_since(shown))]
        for key in set(unshown).difference(believed):
            del by_device[key]
        for key in believed:
            if key not in self._devices:
                unknown = GpuReading(uuid=key, index=-1, model="")
                self._devices[key] = DeviceAccount(unknown, DepartedProcesses(self._time_scale), None)

    def _lost_since(self, shown: Mapping[str, GpuReading]) -> int:
        """How many GPUs are not shown that once were: no claim on another one is about one of these."""
        seen = {device.reading.uuid for device in self._devices.values() if device.seen is not None}
        return len(seen.difference(reading.uuid for reading in shown.values()))

    def _began(self, start: float, before: float, now: float, day: float) -> float:
        """When an allocation began that says so by the time of day, which was set since `before`, it may be."""
        old, new = start - day, start - self._day
        return old if before < old <= now and not before < new <= now else new

    def _forget(self, shown: Mapping[str, GpuReading], now: float) -> None:
        """A MIG instance that was taken apart does not come back under its UUID; a GPU that is lost may. One that was
        not read for a moment does. Of one that NVML never showed there is nothing to be kept.
        """
        gone = [
            key
            for key, device in self._devices.items()
            if not device.owned
            and (device.seen is None or (device.reading.mig and key not in shown and now - device.seen > LATEST))
        ]
        for key in gone:
            del self._devices[key]

    def _view(self, snapshot: Snapshot, ownership: Ownership) -> View:
        shown = {reading.key for reading in snapshot.gpus}
        return View(
            snapshot=snapshot,
            ownership=ownership,
            devices=tuple(device.view(self._day) for key, device in self._devices.items() if key in shown),
            owned=tuple(
                owned.view(device.reading, device.index, snapshot.at, self.hold)
                for device in self._devices.values()
                for owned in device.owned.values()
            ),
            indexes={
                device.reading.uuid: device.index for device in self._devices.values() if device.index is not None
            },
        )
