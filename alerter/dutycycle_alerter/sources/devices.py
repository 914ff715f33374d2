"""What the scraped exporters say of the GPUs and nodes themselves, whoever holds them. In memory, without I/O.

A GPU's history reaches back as far as the longest window of the rules on GPUs. It is not kept in the store: after a
restart a window is not known before it was watched again.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean, median

from dutycycle_alerter.history import Series
from dutycycle_alerter.model import DeviceWindow, Gpu, GpuEvidence, NodeEvidence, job_id
from dutycycle_alerter.sources.exposition import Device, DeviceKey, Exposition, held_down
from dutycycle_alerter.sources.metric_names import HEAT, HEAT_AT_ONCE, POWER_CAP
from dutycycle_alerter.sources.tracked import ABSENT_ANSWERS

_COUNTED = ("busy", "observed")
_REASONS = (*HEAT, HEAT_AT_ONCE, POWER_CAP)
RECENT = 60.0
"""Seconds over which the utilization is averaged that is shown as the present one."""
_MEMORY, _PROCESSES, _HELD, _UTILIZATION = range(4)

RISE = 1.001
"""Idle power rises by this factor a pass at most: it follows the lowest reading down at once, and back within hours."""


@dataclass(slots=True)
class _Track:
    """One GPU or MIG instance: its health as last shown, and its last minutes. `counted` has the busy and observed
    seconds of the last minute.

    `seen` is its newest answer, `watched_from` the first of those that came without a gap, `free_since` when it first
    had neither process nor owner.
    """

    gpu: Gpu
    profile: str = ""
    seen: float = 0.0
    watched_from: float = 0.0
    free_since: float | None = None
    history: Series = field(default_factory=lambda: Series(len(_REASONS)))
    counted: Series = field(default_factory=lambda: Series(len(_COUNTED)))
    readings: Mapping[str, float] = field(default_factory=dict)
    health: Mapping[str, float] = field(default_factory=dict)
    xids: dict[int, float] = field(default_factory=dict)
    jobs: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What it has its baseline in common with: model and MIG profile."""
        return f"{self.gpu.model} {self.profile}".rstrip()

    def append(
        self, t: float, device: Device, jobs: tuple[str, ...], *, spacing: float, longest_gap: float, recent: float
    ) -> None:
        """Take one answer. Between two points that are kept lie the least memory, and the most processes."""
        if t <= self.seen:
            return
        if not self.history.times or t - self.seen > longest_gap:
            self.watched_from, self.history = t, Series(len(_REASONS))
        self.seen, self.jobs = t, jobs
        self.counted.append(t, tuple(map(device.counted.get, _COUNTED)))
        self.counted.forget_before(t - recent)
        self.readings, self.health = device.readings, device.health
        processes = device.readings.get("processes")
        free = processes == 0 and not jobs
        self.free_since = (t if self.free_since is None else self.free_since) if free else None
        gauges = (device.readings.get("memory_used"), processes, float(bool(jobs)), device.readings.get("utilization"))
        if self.history.crowded(spacing):
            memory, most, held, busiest = self.history.gauges[-1]
            gauges = (
                _least(memory, gauges[0]),
                _most(most, gauges[1]),
                max(held or 0.0, gauges[2]),
                _most(busiest, gauges[3]),
            )
        self.history.append(t, tuple(map(device.throttled.get, _REASONS)), gauges, spacing=spacing)

    def window(self, at: float, length: float) -> DeviceWindow:
        """The last `length` seconds. A reading that is missing at any point makes the whole of it unknown."""
        start, history = at - length, self.history
        if not history.times or self.watched_from > start:
            return DeviceWindow(length)
        memory = history.gauge_between(_MEMORY, start, at)
        processes = history.gauge_between(_PROCESSES, start, at)
        held = history.gauge_between(_HELD, start, at)
        utilization = history.gauge_between(_UTILIZATION, start, at)
        heat, capped = held_down(dict(zip(_REASONS, history.increase(start, at), strict=True)))
        return DeviceWindow(
            length=length,
            memory_used=None if memory is None else min(memory),
            processes=None if processes is None else max(processes),
            allocated=None if held is None else max(held) > 0,
            throttle_thermal=None if heat is None else min(1.0, heat / length),
            throttle_power=None if capped is None else min(1.0, capped / length),
            utilization=None if utilization is None else fmean(utilization),
        )


@dataclass(slots=True)
class Devices:
    """Every GPU and node that has answered. All arguments are wall seconds: between scrapes, between points that are
    kept, the longest window of the rules, and how long a GPU is remembered that is no longer shown.

    `idle_power` (watts by model) and `baseline` (bytes by model and MIG profile) are learned from free GPUs.
    """

    interval: float
    resolution: float
    window: float
    kept: float
    time_scale: float = 1.0
    idle_power: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, float] = field(default_factory=dict)
    _tracks: dict[DeviceKey, _Track] = field(default_factory=dict)
    _nodes: dict[str, deque[tuple[float, float | None, float | None]]] = field(default_factory=dict)

    @property
    def _longest_gap(self) -> float:
        return ABSENT_ANSWERS * self.interval

    @property
    def _recent(self) -> float:
        # Two scrapes must lie in it, also where the scrape interval is long.
        return max(RECENT / self.time_scale, 2 * self.interval)

    def utilization(self, key: DeviceKey) -> float | None:
        """Return the mean utilization (busy / observed) over the last minute before the newest answer, or since the
        answer before that one where it is older. None where nothing was measured.
        """
        track = self._tracks.get(key)
        if track is None:
            return None
        busy, observed = track.counted.increase(track.seen - self._recent, track.seen)
        return min(1.0, busy / observed) if busy is not None and observed else None

    def ingest(self, exposition: Exposition, t: float) -> None:
        """Take one exporter's answer."""
        for node in exposition.expected.keys() | exposition.visible.keys():
            answers = self._nodes.setdefault(node, deque(maxlen=2))
            if not answers or answers[-1][0] < t:
                answers.append((t, exposition.expected.get(node), exposition.visible.get(node)))
        jobs = _jobs(exposition)
        for key, device in exposition.devices.items():
            if key[0] not in exposition.nodes:
                continue
            gpu = Gpu(key[0], device.index, key[1], key[2], device.model)
            track = self._tracks.setdefault(key, _Track(gpu))
            track.gpu, track.profile = gpu, device.profile
            track.append(
                t, device, jobs[key], spacing=self.resolution, longest_gap=self._longest_gap, recent=self._recent
            )
        for key, xids in exposition.xids.items():
            # Also of a GPU that fell off the bus before it was ever shown.
            track = self._tracks.setdefault(key, _Track(Gpu(key[0], "", key[1], key[2]), seen=t))
            # An exporter whose clock was set right says when it was by that clock.
            track.xids |= xids

    def rewind(self, until: float) -> None:
        """The clock was set back: what was seen later is watched anew."""
        for track in self._tracks.values():
            track.seen = min(track.seen, until)
            track.free_since = None
            track.history = Series(len(_REASONS))
            track.counted = Series(len(_COUNTED))
        self._nodes.clear()

    def gpus(self, at: float) -> list[GpuEvidence]:
        """Every GPU and instance that was shown not too long ago."""
        return [self._evidence(key, track, at) for key, track in sorted(self._tracks.items())]

    def _evidence(self, key: DeviceKey, track: _Track, at: float) -> GpuEvidence:
        if not self._shown(key, track, at):
            return GpuEvidence(
                track.gpu, at, DeviceWindow, visible=False, watched_from=track.watched_from, xids=dict(track.xids)
            )
        failed = track.health.get("remap_failed")
        return GpuEvidence(
            gpu=track.gpu,
            at=at,
            window=partial(track.window, at),
            watched_from=track.watched_from,
            xids=dict(track.xids),
            recovery_action=track.health.get("recovery_action"),
            remap_failed=None if failed is None else failed > 0,
            memory_used=track.readings.get("memory_used"),
            memory_total=track.readings.get("memory_total"),
            memory_baseline=self.baseline.get(track.kind),
            jobs=track.jobs,
        )

    def _shown(self, key: DeviceKey, track: _Track, at: float) -> bool:
        """Whether its node's newest answer is recent, and shows it."""
        answers = self._nodes.get(key[0])
        newest = answers[-1][0] if answers else track.seen
        return bool(track.history.times) and track.seen >= newest and at - track.seen <= self._longest_gap

    def nodes(self, at: float) -> list[NodeEvidence]:
        """Every node. A GPU is missing only where two answers in a row lack it: while a driver is loaded GPUs come one
        by one.
        """
        return [self._node(node, answers, at) for node, answers in sorted(self._nodes.items())]

    def _node(self, node: str, answers: deque[tuple[float, float | None, float | None]], at: float) -> NodeEvidence:
        expected = [answer[1] for answer in answers if answer[1] is not None]
        visible = [answer[2] for answer in answers if answer[2] is not None]
        recent = at - answers[-1][0] <= self._longest_gap and answers[-1][0] - answers[0][0] <= self._longest_gap
        if len(answers) < 2 or not recent or len(expected) < 2 or len(visible) < 2:
            return NodeEvidence(node, at)
        return NodeEvidence(node, at, expected=min(expected), visible=max(visible))

    def committed(self, at: float) -> None:
        """A pass is in the store: learn from the free GPUs, and let go of what no window reaches."""
        self._learn(at)
        for key in [key for key, track in self._tracks.items() if at - track.seen > self.kept]:
            del self._tracks[key]
        for node in [node for node, answers in self._nodes.items() if at - answers[-1][0] > self.kept]:
            del self._nodes[node]
        for track in self._tracks.values():
            if track.history.times:
                track.history.forget_before(at - self.window)

    def _learn(self, at: float) -> None:
        """Idle power is the median of the free GPUs of a model, and rises slowly. The baseline is the least memory that
        any had in use: where some GPU leaks, the least is what it should be.
        """
        watts: defaultdict[str, list[float]] = defaultdict(list)
        for key, track in self._tracks.items():
            if track.free_since is None or at - track.free_since < self.resolution or not self._shown(key, track, at):
                continue
            power, memory = track.readings.get("power"), track.readings.get("memory_used")
            if power is not None and power > 0 and not track.gpu.mig:
                watts[track.gpu.model].append(power)
            if memory is not None:
                self.baseline[track.kind] = min(memory, self.baseline.get(track.kind, memory))
        for model, drawn in watts.items():
            now = median(drawn)
            self.idle_power[model] = min(now, RISE * self.idle_power.get(model, now))

    def learned(self) -> dict[str, dict[str, float]]:
        """What was learned, for the store."""
        return {"idle_power": dict(self.idle_power), "baseline": dict(self.baseline)}

    def recall(self, learned: Mapping[str, Mapping[str, float]] | None) -> None:
        """Go on from what the store kept; None where it has nothing."""
        if learned:
            self.idle_power.update(learned.get("idle_power", {}))
            self.baseline.update(learned.get("baseline", {}))


def _jobs(exposition: Exposition) -> defaultdict[DeviceKey, tuple[str, ...]]:
    """Who holds each GPU; who holds an instance holds a part of its GPU, too."""
    found: defaultdict[DeviceKey, set[str]] = defaultdict(set)
    for key, owned in exposition.owned.items():
        if owned.share is not None:
            job = job_id(owned.labels.get("cluster", ""), owned.labels["workload"])
            found[key[:3]].add(job)
            found[(*key[:2], "")].add(job)
    return defaultdict(tuple, {key: tuple(sorted(jobs)) for key, jobs in found.items()})


def _least(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else min(one, other)


def _most(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)
