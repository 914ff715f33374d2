"""The MIG instances of a GPU, which appear and vanish while we run.

NVML measures no duty cycle in them. Where there is GPM, the graphics engine's activity takes its place. GPM counts by
GPU instance: where several compute instances share one, each shows the activity of all, and none has a duty cycle.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pynvml

from dutycycle_exporter.model import Activity, Counts, GpuReading, Span
from dutycycle_exporter.nvml.calls import Calls
from dutycycle_exporter.nvml.devices import Device
from dutycycle_exporter.nvml.gauges import read_memory
from dutycycle_exporter.nvml.gpm import Metrics, Sampler
from dutycycle_exporter.nvml.processes import running

_MOST = 64
"""MIG instances of a GPU, and more than any has: what NVML says beyond that is no count."""

# As in "NVIDIA H100 80GB HBM3 MIG 1g.10gb", or 1c.3g.40gb for a compute instance that is a part of its GPU instance.
_PROFILE = re.compile(r"\bMIG ((?:(\d+)c\.)?(\d+)g\.\S+)$")


@dataclass(slots=True, eq=False)
class _Instance:
    """A MIG device: a compute instance in a GPU instance. What never changes about it, as far as it is known.

    `name` is what NVML calls it. Its UUID is made of the places of its GPU's and of its own: another profile at the
    same place has the same UUID.
    """

    handle: Any
    uuid: str
    name: str
    gpu_instance: int | None = None
    compute_instance: int | None = None
    profile: str = ""
    slices: int | None = None
    unsupported: set[object] = field(default_factory=set)

    def identify(self, calls: Calls) -> None:
        """Ask for what is not known yet. The name goes before: attributes tell the memory in other units."""
        if self.gpu_instance is None:
            self.gpu_instance = calls.ask(self.unsupported, pynvml.nvmlDeviceGetGpuInstanceId, self.handle)
        if self.compute_instance is None:
            call = pynvml.nvmlDeviceGetComputeInstanceId
            self.compute_instance = calls.ask(self.unsupported, call, self.handle)
        if not self.profile and (found := _PROFILE.search(self.name)):
            self.profile, self.slices = found[1], int(found[2] or found[3])
        if self.slices is None:
            attributes = calls.ask(self.unsupported, pynvml.nvmlDeviceGetAttributes_v2, self.handle)
            if attributes is not None:
                self.slices = int(attributes.computeInstanceSliceCount)
                self.profile = _compose(attributes)


class MigInstances:
    """Those of one GPU."""

    def __init__(self) -> None:
        self._known: dict[str, _Instance] = {}
        self._samplers: dict[tuple[int, tuple[str, ...]], Sampler] = {}

    def read(
        self, device: Device, calls: Calls, now: float, *, metrics: Metrics | None, memory: bool
    ) -> Iterator[GpuReading]:
        """A reading for each. `metrics` is None where there is no GPM, or it is not wanted; `memory`: that is wanted.
        Raises LostError.
        """
        whole = calls.ask(device.unsupported, pynvml.nvmlDeviceGetMaxMigDeviceCount, device.handle)
        if whole is not None and whole > _MOST:
            calls.note("nvmlDeviceGetMaxMigDeviceCount", "wrong_count")
            whole = None
        self._find(device, calls, whole or 0)
        activities = {} if metrics is None else self._activities(device, calls, metrics, now)
        of_gpu = device.unread()
        for instance in self._known.values():
            if not whole or instance.slices is None:
                # Its share of the GPU is what its owner is charged with: without it there is nothing to be said.
                continue
            group = self._group(instance)
            activity, cycles = activities.get(group, (None, ())) if group else (None, ())
            read = read_memory(instance.unsupported, calls, instance.handle) if memory else None
            yield replace(
                of_gpu,
                mig=instance.uuid,
                mig_profile=instance.profile,
                slices=min(1.0, instance.slices / whole),
                gpu_instance=instance.gpu_instance,
                compute_instance=instance.compute_instance,
                spans=_spans(activity) if group and len(group[1]) == 1 else (),
                memory_used=None if read is None else read[0],
                memory_total=None if read is None else read[1],
                memory_reserved=None if read is None else read[2],
                processes=running(instance.unsupported, calls, instance.handle),
                cycles=cycles,
                activity=activity,
            )

    def retry(self) -> None:
        """Ask again also for what is not supported."""
        for instance in self._known.values():
            instance.unsupported.clear()
        for sampler in self._samplers.values():
            sampler.retry()

    def close(self) -> None:
        """Give back what is held for them."""
        self._known.clear()
        for sampler in self._samplers.values():
            sampler.close()
        self._samplers.clear()

    def _find(self, device: Device, calls: Calls, places: int) -> None:
        """Which there are now. A handle may mean another instance than before: each says who it is."""
        known, self._known = self._known, {}
        for place in range(places):
            handle = _at(device, calls, place)
            uuid = None if handle is None else calls.ask(set(), pynvml.nvmlDeviceGetUUID, handle)
            if not uuid:
                continue
            name = calls.ask(set(), pynvml.nvmlDeviceGetName, handle) or ""
            instance = known.get(uuid)
            if instance is not None and instance.name != name and instance.name and name:
                self._forget(instance)
                instance = None
            if instance is None:
                instance = _Instance(handle, uuid, name)
            instance.handle, instance.name = handle, instance.name or name
            instance.identify(calls)
            self._known[uuid] = instance

    def _forget(self, instance: _Instance) -> None:
        """Another is in its place: what was counted of the old one is not compared with the new one's."""
        for group in [group for group in self._samplers if instance.uuid in group[1]]:
            self._samplers.pop(group).close()

    def _group(self, instance: _Instance) -> tuple[int, tuple[str, ...]] | None:
        """The GPU instance, and which share it: when that changes, GPM begins anew."""
        if instance.gpu_instance is None:
            return None
        members = [other.uuid for other in self._known.values() if other.gpu_instance == instance.gpu_instance]
        return instance.gpu_instance, tuple(sorted(members))

    def _activities(
        self, device: Device, calls: Calls, metrics: Metrics, now: float
    ) -> dict[tuple[int, tuple[str, ...]], tuple[Activity | None, Counts]]:
        """What each GPU instance did, and its raw counters."""
        groups = [group for instance in self._known.values() if (group := self._group(instance))]
        for gone in self._samplers.keys() - set(groups):
            self._samplers.pop(gone).close()
        found: dict[tuple[int, tuple[str, ...]], tuple[Activity | None, Counts]] = {}
        for group in groups:
            if group in found:
                continue
            sampler = self._samplers.get(group)
            if sampler is None:
                sampler = Sampler(metrics, calls, pynvml.nvmlGpmMigSampleGet, device.handle, group[0])
                self._samplers[group] = sampler
            found[group] = sampler.read(now), sampler.cycles
        return found


def _at(device: Device, calls: Calls, place: int) -> Any:
    """The handle of the instance at a place; None where there is none."""
    call = pynvml.nvmlDeviceGetMigDeviceHandleByIndex
    if call in device.unsupported or calls.too_late(call.__name__):
        return None
    try:
        return call(device.handle, place)
    except pynvml.NVMLError as error:
        if error.value != pynvml.NVML_ERROR_NOT_FOUND:
            calls.failed_with(device.unsupported, call.__name__, error.value, call)
        return None


def _spans(activity: Activity | None) -> tuple[Span, ...]:
    """The activity of the graphics engine as a duty cycle."""
    for unit, ratio in () if activity is None else activity.units:
        if unit == "graphics" and activity is not None:
            return (Span(activity.start, activity.end, ratio),)
    return ()


def _compose(attributes: Any) -> str:
    """A profile's name from an instance's attributes, for a driver whose name for it does not have it."""
    compute, whole = int(attributes.computeInstanceSliceCount), int(attributes.gpuInstanceSliceCount)
    part = "" if compute == whole else f"{compute}c."
    return f"{part}{whole}g.{math.ceil(attributes.memorySizeMB / 1024)}gb"
