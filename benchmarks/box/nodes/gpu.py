"""One GPU in scaled time without a double: what NVML would have told the exporter's child at a given instant.

It has the double's own rules (whole percents at NVML's sample period, counters exact between any two instants, the
same models), but takes all samples between two readings at once.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from dutycycle_exporter.contract import ACTIVITY
from dutycycle_exporter.model import Activity, GpuReading, Process, Span
from tests.fakes.nvml import Load, Model
from tests.fakes.nvml.gpu import gpu_uuid
from tests.fakes.nvml.layout import GPM_ACTIVITIES

from .busy import Busy, Times, compiled, integral

_UNIT = {"sm_occupancy": "occupancy", "tensor_hmma": "hmma", "tensor_imma": "imma", "tensor_dfma": "dfma"}
"""What the double calls the exporter's units, where it does otherwise."""
_ACTIVE = tuple((unit, GPM_ACTIVITIES.index(_UNIT.get(unit, unit))) for unit in ACTIVITY)
_WHILE_BUSY = {"pcie": {"rx": 2e9, "tx": 5e8}, "nvlink": {"rx": 2e7 * 1024, "tx": 2e7 * 1024}}
"""Bytes per busy second, as the double has them where nothing is said."""
_THROTTLE = (
    *("power_cap", "thermal", "sync_boost", "board_limit", "reliability"),
    *("sw_thermal", "hw_thermal", "power_brake"),
)
_ECC_ERRORS = tuple(
    (f"{part}{life}_{kind}", 0.0)
    for part in ("", "sram_")
    for life in ("volatile", "aggregate")
    for kind in ("corrected", "uncorrected")
)
_IDLE_CLOCK = 345
_HOPPER = 9
"""The first architecture with GPM."""


@dataclass(frozen=True)
class Stretch:
    """What a job does to the GPU in [start, end), in Unix seconds. `pids` are those of the load's processes on the
    node, and `link_bytes` a second over NVLink and PCIe together; None: as much as the busy time suggests.
    """

    start: float
    end: float
    load: Load
    busy: Busy
    pids: tuple[int, ...] = ()
    link_bytes: float | None = None
    power: Busy | None = None

    @staticmethod
    def of(
        load: Load,
        start: float,
        end: float,
        *,
        pids: tuple[int, ...] = (),
        link_bytes: float | None = None,
        known: dict[int, Busy] | None = None,
    ) -> Stretch:
        """`known` are the integrals of patterns by their identity, which several stretches may share."""
        busy = None if known is None else known.get(id(load.pattern))
        if busy is None:
            busy = compiled(load.pattern)
        if known is not None:
            known[id(load.pattern)] = busy
        power = None if load.power_watts is None else integral(load.power_watts)
        return Stretch(start, end, load, busy, pids, link_bytes, power)

    def busy_until(self, at: Times, time_scale: float) -> Times:
        """Wall seconds for which it has kept the GPU busy by Unix times."""
        return self.busy(self.run_time(at, time_scale)) / time_scale

    def run_time(self, at: Times, time_scale: float) -> Times:
        """Seconds of the full-length run that it has seen by Unix times."""
        return np.minimum(np.maximum(at - self.start, 0.0), self.end - self.start) * time_scale

    def processes(self, now: float, time_scale: float) -> Iterator[Process]:
        growth = self.load.memory_growth
        grown = min(1.0, (now - self.start) * time_scale / growth) if growth else 1.0
        for pid, process in zip(self.pids, self.load.processes, strict=True):
            yield Process(pid, float(round(process.memory * grown)))


@dataclass
class Trouble:
    """What is wrong with the GPU itself, by the Unix times between which it is."""

    lost: list[tuple[float, float]] = field(default_factory=list)
    hot: list[tuple[float, float, float]] = field(default_factory=list)
    """With the share of the time for which heat holds the clocks down."""
    leaked: list[tuple[float, float, float]] = field(default_factory=list)
    """With the bytes that no process has."""

    def gone(self, now: float) -> bool:
        return any(since <= now < until for since, until in self.lost)

    def held_down(self, before: float, now: float) -> float:
        """Seconds of (before, now] for which clocks were held down."""
        return sum(max(0.0, min(now, until) - max(before, since)) * share for since, until, share in self.hot)

    def memory(self, now: float) -> float:
        return sum(size for since, until, size in self.leaked if since <= now < until)


class SimulatedGpu:
    """`read` is called with rising times. `begin` is when its first sample begins."""

    def __init__(
        self,
        node: str,
        index: int,
        model: Model,
        *,
        begin: float,
        time_scale: float,
        sample_period: float,
        full: float = 1.0,
    ) -> None:
        self.index = index
        self.uuid = gpu_uuid(node, index)
        self.trouble = Trouble()
        self._model = model
        self._time_scale = time_scale
        self._begin = begin
        self._period = sample_period / time_scale
        self._highest = round(100 * full)
        self._sampled = 0
        self._until = begin
        self._stretches: deque[Stretch] = deque()
        self._joules = 0.0
        self._hot = 0.0
        self._bytes = {link: dict.fromkeys(rates, 0.0) for link, rates in _WHILE_BUSY.items()}

    @property
    def bus_id(self) -> str:
        """As sysfs has it; the double numbers its GPUs so."""
        return f"0000:{0x1B + 0x11 * self.index % 0xE0:02x}:00.0"

    def add(self, stretches: Sequence[Stretch]) -> None:
        """What will run on it."""
        for stretch in stretches:
            insort(self._stretches, stretch, key=attrgetter("start"))

    def read(self, now: float) -> GpuReading | None:
        """Everything since the reading before; None while the GPU is lost."""
        due = math.floor((now - self._begin) / self._period)
        edges = self._begin + np.arange(self._sampled, due + 1) * self._period
        at = np.concatenate((edges, (self._until, now)))
        running = self._overlapping(min(float(edges[0]), self._until), now)
        shares = [(stretch, stretch.busy_until(at, self._time_scale)) for stretch in running]
        total = sum((busy for _, busy in shares), np.zeros_like(at))
        sampled = total[1:-2] - total[:-3]
        percents = np.minimum(self._highest, (100 * sampled / self._period + 0.5).astype(np.int64))
        reading = self._reading(now, _spans(edges, percents), percents, shares)
        self._sampled, self._until = max(self._sampled, due), now
        while self._stretches and self._stretches[0].end < self._begin + self._sampled * self._period:
            self._stretches.popleft()
        return None if self.trouble.gone(now) else reading

    def _overlapping(self, since: float, now: float) -> Iterator[Stretch]:
        for stretch in self._stretches:
            if stretch.start > now:
                return
            if stretch.end > since:
                yield stretch

    def _reading(
        self, now: float, spans: tuple[Span, ...], percents: np.ndarray, shares: list[tuple[Stretch, Times]]
    ) -> GpuReading:
        model, length = self._model, now - self._until
        gpm = model.architecture >= _HOPPER
        busy = [(stretch, float(times[-1] - times[-2])) for stretch, times in shares]
        joules = self._energy(busy, now)
        self._joules += joules
        self._hot += self.trouble.held_down(self._until, now)
        carried = self._carried(busy, now)
        for link, total in self._bytes.items():
            for direction, size in carried[link].items():
                total[direction] += size
        active = sum(seconds for _, seconds in busy)
        dram = sum(seconds * stretch.load.memory_activity for stretch, seconds in busy)
        newest = int(percents[-1]) / 100 if len(percents) else 0.0
        processes = tuple(
            process
            for stretch, _ in busy
            if stretch.start <= now < stretch.end
            for process in stretch.processes(now, self._time_scale)
        )
        memory = sum(process.memory or 0.0 for process in processes) + self.trouble.memory(now)
        power = joules / length if length > 0 else model.idle_power
        degrees = float(round(28 + 40 * power / model.power_limit))
        clock = model.sm_clock if newest > 0 else _IDLE_CLOCK
        return GpuReading(
            uuid=self.uuid,
            index=self.index,
            model=model.name,
            minor=self.index,
            pci_bus_id=f"0000{self.bus_id}",
            mig_mode="disabled" if model.mig_multiprocessors else "",
            spans=spans,
            utilization=newest,
            memory_activity=min(1.0, round(newest * dram / active, 2)) if active else 0.0,
            encoder_utilization=0.0,
            decoder_utilization=0.0,
            memory_used=min(float(model.memory - model.reserved), memory),
            memory_total=float(model.memory),
            memory_reserved=float(model.reserved),
            power=power,
            power_limit=float(model.power_limit),
            energy=self._joules,
            temperatures=(("gpu", degrees), ("memory", degrees + 8)),
            clocks=tuple(
                zip(
                    ("graphics", "sm", "memory", "video"),
                    (clock * 1e6, clock * 1e6, model.memory_clock * 1e6, model.sm_clock * 9 // 10 * 1e6),
                    strict=True,
                )
            ),
            performance_state=0,
            processes=processes,
            throttle=tuple((reason, self._hot if reason == "sw_thermal" else 0.0) for reason in _THROTTLE),
            ecc_errors=_ECC_ERRORS,
            remapped_rows=(("correctable", 0.0), ("uncorrectable", 0.0)),
            sram_threshold_exceeded=False,
            remap_pending=False,
            remap_failed=False,
            recovery_action=0,
            pcie_replays=0.0,
            # Its counter wraps every few seconds, and only GPM tells how often.
            pcie_bytes=tuple(self._bytes["pcie"].items()) if gpm else (),
            nvlink_bytes=tuple(self._bytes["nvlink"].items()) if model.nvlinks else (),
            activity=self._activity(busy, carried, now) if gpm and length > 0 else None,
        )

    def _energy(self, busy: list[tuple[Stretch, float]], now: float) -> float:
        idle, limit = self._model.idle_power, self._model.power_limit
        joules = idle * (now - self._until)
        for stretch, seconds in busy:
            if stretch.power is None:
                joules += seconds * (limit - idle) * stretch.load.power_factor
            else:
                times = stretch.run_time(np.array([self._until, now]), self._time_scale)
                watts = np.diff(stretch.power(times))[0] - idle * np.diff(times)[0]
                joules += float(watts) / self._time_scale
        return joules

    def _carried(self, busy: list[tuple[Stretch, float]], now: float) -> Mapping[str, Mapping[str, float]]:
        """Bytes on the links since the reading before: as the stretch says, a half on each link and each way; else by
        the busy time.
        """
        found = {link: dict.fromkeys(rates, 0.0) for link, rates in _WHILE_BUSY.items()}
        for stretch, seconds in busy:
            held = max(0.0, min(now, stretch.end) - max(self._until, stretch.start))
            for link, rates in _WHILE_BUSY.items():
                for direction, rate in rates.items():
                    given = stretch.link_bytes
                    found[link][direction] += rate * seconds if given is None else given / 4 * held
        return found

    def _activity(
        self, busy: list[tuple[Stretch, float]], carried: Mapping[str, Mapping[str, float]], now: float
    ) -> Activity:
        length = now - self._until
        worked = [0.0] * len(GPM_ACTIVITIES)
        for stretch, seconds in busy:
            worked = [before + seconds * share for before, share in zip(worked, stretch.load.activities, strict=True)]
        units = tuple((unit, min(1.0, worked[place] / length)) for unit, place in _ACTIVE)
        pcie, nvlink = (
            tuple((direction, size / length) for direction, size in carried[link].items())
            for link in ("pcie", "nvlink")
        )
        return Activity(self._until, now, units, pcie, nvlink)


def _spans(edges: Times, percents: np.ndarray) -> tuple[Span, ...]:
    """Samples that are like the one before are one span, as the exporter's child makes them."""
    if not len(percents):
        return ()
    bounds = [0, *(np.flatnonzero(percents[1:] != percents[:-1]) + 1).tolist(), len(percents)]
    at = edges[bounds].tolist()
    return tuple(map(Span, at, at[1:], (percents[bounds[:-1]] / 100).tolist()))
