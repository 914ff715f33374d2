"""One exporter's answer, parsed: which of its series the alerter reads, and what they say. Pure: text in, data out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.history import Values
from dutycycle_alerter.sources.metric_names import (
    ACTIVE,
    DEVICE_COUNTERS,
    DEVICE_GAUGES,
    DEVICE_THROTTLED,
    DIRECTIONS,
    GPU_PLACES,
    HEALTH,
    HEAT,
    HEAT_AT_ONCE,
    HOST_PLACES,
    LINKS,
    LOW,
    METRICS_READ,
    POWER_CAP,
    SAMPLES,
    THROTTLED,
    UNITS,
    WORKLOAD_LABEL,
    XID,
)

LONGEST_LINE = 64 * 2**10
"""The parser takes quadratic time in the length of a line."""
HIGHEST_COUNTER = 2.0**53
"""Seconds or joules up to which a double counts exactly."""

DeviceKey = tuple[str, str, str]
"""Node, GPU UUID (or index where there is none), MIG UUID."""
SeriesKey = tuple[str, str, str, str]
"""DeviceKey and workload."""


@dataclass(slots=True)
class Owned:
    """One workload on one GPU. `share` is None once the allocation has ended; the counters are then final. `active` are
    the seconds in which units of the GPU worked for it, by unit; empty where the GPU cannot tell. `throttled` are the
    seconds with its clocks held down, by reason; `low` those in samples of a low duty cycle.
    """

    labels: Mapping[str, str]
    counters: list[float | None] = field(default_factory=lambda: [None] * 8)
    active: dict[str, float] = field(default_factory=dict)
    throttled: dict[str, float] = field(default_factory=dict)
    low: float | None = None
    share: float | None = None
    memory_used: float | None = None
    processes: float | None = None
    start: float | None = None
    first_process: float | None = None


@dataclass(slots=True)
class Host:
    """One workload on one node: CPU seconds, pressure seconds (I/O, CPU), and the limit in cores."""

    counters: list[float | None] = field(default_factory=lambda: [None] * 3)
    cpu_limit: float | None = None


@dataclass(slots=True)
class Device:
    """One GPU: its index, model and MIG profile, and its present readings by name (`GpuNow`'s fields).

    `health` is what the driver says of its state by name, `throttled` seconds by reason, `links` bytes by kind of link
    and direction; the last two count from when its driver was loaded. `counted` has the seconds that the exporter
    measured: `busy` and `observed`.
    """

    index: str
    model: str = ""
    profile: str = ""
    readings: dict[str, float] = field(default_factory=dict)
    health: dict[str, float] = field(default_factory=dict)
    throttled: dict[str, float] = field(default_factory=dict)
    links: dict[tuple[str, str], float] = field(default_factory=dict)
    counted: dict[str, float] = field(default_factory=dict)

    def link(self, kind: str) -> float | None:
        """Bytes over one kind of link, both ways; None where a direction is missing."""
        sent = [self.links.get((kind, direction)) for direction in DIRECTIONS]
        return None if None in sent else sum(filter(None, sent))

    @property
    def link_kind(self) -> str:
        """NVLink, or PCIe where there is none; empty where neither is known."""
        return next((kind for kind in LINKS.values() if self.link(kind) is not None), "")


@dataclass(slots=True)
class Exposition:
    """Everything of one answer that the alerter uses."""

    nodes: set[str] = field(default_factory=set)
    """Nodes whose GPUs the exporter sees right now. Without that it cannot tell that an allocation has ended."""
    owned: dict[SeriesKey, Owned] = field(default_factory=dict)
    hosts: dict[tuple[str, str], Host] = field(default_factory=dict)
    devices: dict[DeviceKey, Device] = field(default_factory=dict)
    labels: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """Labels of the workloads' pods, by cluster and workload."""
    xids: dict[DeviceKey, dict[int, float]] = field(default_factory=dict)
    """When each XID was last reported, also of GPUs that are no longer shown."""
    expected: dict[str, float] = field(default_factory=dict)
    """GPUs by node on its PCI bus."""
    visible: dict[str, float] = field(default_factory=dict)
    """GPUs by node that NVML shows; a node is missing while NVML cannot be read."""
    time_scale: float | None = None
    replay: bool = False

    def gpu_values(self, key: SeriesKey, link: str = "") -> tuple[Values, Values]:
        """Counters and gauges of one owned GPU, in the order of `history`; `link` is the kind of link that is
        counted.
        """
        owned = self.owned[key]
        device = self.devices.get(key[:3]) or _NO_DEVICE
        # An instance's power limit is its GPU's.
        whole = self.devices.get((*key[:2], "")) or device
        counters = (
            *owned.counters,
            *(owned.active.get(unit) for unit in UNITS),
            held_down(owned.throttled)[0],
            device.link(link) if link else None,
            owned.low,
        )
        gauges = (
            owned.share,
            owned.memory_used,
            device.readings.get("memory_total"),
            owned.processes,
            whole.readings.get("power_limit"),
        )
        return counters, gauges


_NO_DEVICE = Device("")


def held_down(reasons: Mapping[str, float | None]) -> tuple[float | None, float | None]:
    """Seconds held down by heat or power brake, and by the power cap, from seconds by reason; None is not known.

    Where the driver tells the kinds of heat one by one they are added up; they rarely overlap.
    """
    kinds = [value for reason in HEAT if (value := reasons.get(reason)) is not None]
    return (sum(kinds) if kinds else reasons.get(HEAT_AT_ONCE)), reasons.get(POWER_CAP)


def parse(text: str) -> Exposition:
    """Read an exposition. Raises SourceError where it is not one, or lacks what a Dutycycle exporter always says."""
    _check_whole(text)
    found = Exposition()
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in METRICS_READ and _plausible(sample.name, sample.value):
                    _take(found, sample.name, sample.labels, float(sample.value))
    except (ArithmeticError, AttributeError, LookupError, ValueError) as error:
        raise SourceError(f"not a Prometheus exposition of ours: {type(error).__name__}: {str(error)[:200]}") from error
    if found.time_scale is None:
        raise SourceError("no dutycycle_exporter_time_scale: this is not a Dutycycle exporter")
    return found


def _check_whole(text: str) -> None:
    if text and not text.endswith("\n"):
        # Half a number would read as a restarted counter.
        raise SourceError("the answer was cut off within a line")
    start = 0
    while start < len(text):
        end = text.index("\n", start)
        if end - start > LONGEST_LINE:
            raise SourceError(f"a line is longer than {LONGEST_LINE >> 10} KiB: this is not an exposition of ours")
        start = end + 1


def _plausible(name: str, value: float) -> bool:
    """Whether a value is a reading. What is not is missing: as a counter it would be counted as growth or a restart."""
    return math.isfinite(value) and (not name.endswith(("_total", "_bucket")) or 0 <= value <= HIGHEST_COUNTER)


def _take(found: Exposition, name: str, labels: Mapping[str, str], value: float) -> None:
    if name == "dutycycle_exporter_time_scale":
        found.time_scale = value
    elif name == "dutycycle_exporter_replay":
        found.replay = value > 0
    elif name == "gpu_visible":
        found.nodes.add(labels["node"])
        found.visible[labels["node"]] = value
    elif name == "gpu_expected":
        found.expected[labels["node"]] = value
    elif name == XID:
        found.xids.setdefault(_device_key(labels), {})[int(labels["xid"])] = value
    elif name in ("workload_cpu_seconds_total", "workload_cpu_limit_cores", "workload_pressure_seconds_total"):
        _take_host(found, name, labels, value)
    elif name == WORKLOAD_LABEL:
        found.labels.setdefault((labels["cluster"], labels["workload"]), {})[labels["label"]] = labels["value"]
    elif "workload" in labels:
        _take_owned(found, name, labels, value)
    else:
        _take_device(found, name, labels, value)


def _take_host(found: Exposition, name: str, labels: Mapping[str, str], value: float) -> None:
    host = found.hosts.setdefault((labels["node"], labels["workload"]), Host())
    if name == "workload_cpu_limit_cores":
        host.cpu_limit = value
        return
    place = HOST_PLACES.get((name, labels.get("resource", "")))
    if place is not None:
        host.counters[place] = value


def _take_owned(found: Exposition, name: str, labels: Mapping[str, str], value: float) -> None:
    key = (*_device_key(labels), labels["workload"])
    owned = found.owned.get(key)
    if owned is None:
        owned = found.owned[key] = Owned(labels)
    if name == "gpu_allocation":
        owned.labels, owned.share = labels, value
    elif name == "gpu_allocation_start_timestamp_seconds":
        owned.start = value
    elif name == "workload_first_process_timestamp_seconds":
        owned.first_process = value
    elif name == "workload_gpu_memory_used_bytes":
        owned.memory_used = value
    elif name == "workload_gpu_processes":
        owned.processes = value
    elif name == ACTIVE:
        owned.active[labels["unit"]] = value
    elif name == THROTTLED:
        owned.throttled[labels["reason"]] = value
    elif name == SAMPLES:
        if labels["le"] == LOW:
            owned.low = value
    else:
        place = GPU_PLACES.get((name, labels.get("length", "")))
        if place is not None:
            owned.counters[place] = value


def _take_device(found: Exposition, name: str, labels: Mapping[str, str], value: float) -> None:
    device = found.devices.setdefault(_device_key(labels), Device(labels["gpu"]))
    if name == "gpu_info":
        device.model, device.profile = labels["model"], labels.get("mig_profile", "")
    elif name == "gpu_temperature_celsius":
        if labels.get("sensor") == "gpu":
            device.readings["temperature"] = value
    elif name == DEVICE_THROTTLED:
        device.throttled[labels["reason"]] = value
    elif name in LINKS:
        device.links[LINKS[name], labels["direction"]] = value
    elif name in DEVICE_COUNTERS:
        device.counted[DEVICE_COUNTERS[name]] = value
    elif name in HEALTH:
        device.health[HEALTH[name]] = value
    else:
        device.readings[DEVICE_GAUGES[name]] = value


def _device_key(labels: Mapping[str, str]) -> DeviceKey:
    index = labels["gpu"]
    return labels["node"], labels["gpu_uuid"] or index, labels["mig"]
