"""One GPU, from all that is read of it to its reading, and those of its MIG instances."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pynvml

from dutycycle_exporter.model import Activity, Counts, FinishedProcess, GpuReading, Process
from dutycycle_exporter.nvml import gauges
from dutycycle_exporter.nvml.bytes_counted import ByteCount
from dutycycle_exporter.nvml.calls import Calls, ratio
from dutycycle_exporter.nvml.devices import Device
from dutycycle_exporter.nvml.fields import Batch, DriverVersion, Values
from dutycycle_exporter.nvml.finished import FinishedProcesses
from dutycycle_exporter.nvml.gpm import Metrics, Sampler, supported
from dutycycle_exporter.nvml.mig import MigInstances
from dutycycle_exporter.nvml.processes import ProcessReader
from dutycycle_exporter.nvml.utilization import SampleReader, read_rates
from dutycycle_exporter.sampling import SampleBuffer

_RETRY = 3600.0
"""Seconds, before division by the time scale, for which it holds that something is not supported: a GPU that is being
reset or partitioned may say so of what it has.
"""

_SRAM_INTERVAL = 60.0
"""Seconds, before division by the time scale, between two readings of the errors of on-chip memory: they are rare."""


class Gpu:
    """Reads one GPU. `metrics` is None where GPM is not wanted."""

    def __init__(
        self,
        device: Device,
        calls: Calls,
        *,
        interval: float,
        time_scale: float,
        collect: frozenset[str],
        driver: DriverVersion,
        metrics: Metrics | None,
    ) -> None:
        self.device = device
        self._calls = calls
        self._collect = collect
        self._buffer = SampleBuffer(interval=interval, time_scale=time_scale)
        self._samples = SampleReader(self._buffer)
        self._processes = ProcessReader(interval=interval, detail="processes" in collect)
        self._finished = FinishedProcesses()
        self._fields = Batch(collect, driver, interval=interval)
        self._energy: float | None = None
        self._energy_stuck = False
        """Whether the energy counter stood still although the sensor measured power."""
        self._dropped: Counter[str] = Counter()
        self._sram = gauges.SramErrors()
        self._sram_every = _SRAM_INTERVAL / time_scale
        self._sram_at = -math.inf
        self._pcie: dict[str, ByteCount] = {}
        self._metrics = metrics
        self._has_gpm: bool | None = None  # not known yet
        self._retry_every = _RETRY / time_scale
        self._retry_at: float | None = None
        self._sampler: Sampler | None = None
        self._instances = MigInstances()
        self._mode = device.mig_mode

    def read(self, clock: Callable[[], float], ahead: float) -> list[GpuReading]:
        """The GPU's reading, and after it those of its instances; `ahead` is by how many seconds the time of day is
        ahead of the clock. Raises LostError, NvmlUnavailableError.
        """
        now = clock()
        device, calls = self.device, self._calls
        if self._retry_at is None or now >= self._retry_at:
            self._retry(now)
        device.identify(calls)
        refused = len(device.unsupported)
        if device.mig_mode != self._mode:
            self._begin_anew()
        if self._metrics is not None and self._has_gpm is None:
            self._has_gpm = supported(device, calls)
        metrics = self._metrics if self._has_gpm else None
        activity, cycles = (None, ()) if metrics is None else self._activity(metrics, now)
        readings = [self._whole(clock, now, ahead, activity, cycles)]
        if device.partitioned:
            memory = "memory" in self._collect
            readings += self._instances.read(device, calls, now, metrics=metrics, memory=memory)
        if len(device.unsupported) > refused or (device.partitioned and len(readings) == 1):
            # So it looks when the mode was changed.
            device.mode_due = True
        return readings

    @property
    def lacks_buffer(self) -> bool:
        """Return whether utilization has no sample buffer, so that `poll` is to be called between two readings."""
        return self._samples.lacks_buffer(self.device)

    def poll(self, now: float) -> None:
        """Read the current utilization, whose time the next reading has. Raises LostError, NvmlUnavailableError."""
        self._samples.poll(self.device, self._calls, now)

    def take_dropped(self) -> Iterator[Counter[str]]:
        """What was not counted since the last time, by reason."""
        for dropped in (self._buffer.dropped, self._processes.dropped, self._dropped):
            if dropped:
                yield dropped
                dropped.clear()

    def close(self) -> None:
        """Give back what is held for it."""
        self._instances.close()
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None

    def _retry(self, now: float) -> None:
        """Ask again also for what is not supported. What is supported goes on as it is."""
        self._retry_at = now + self._retry_every
        self.device.unsupported.clear()
        self._fields.retry()
        self._instances.retry()
        self._has_gpm = self._has_gpm or None
        if self._sampler is not None:
            self._sampler.retry()

    def _begin_anew(self) -> None:
        """In another MIG mode a GPU has other instances, and supports other things."""
        self._mode = self.device.mig_mode
        self._fields.relearn()
        self._has_gpm = None
        self.close()

    def _whole(
        self, clock: Callable[[], float], now: float, ahead: float, activity: Activity | None, cycles: Counts
    ) -> GpuReading:
        device, calls, collect = self.device, self._calls, self._collect
        # Under MIG it is the instances that work, and have processes.
        rates = None if device.partitioned else read_rates(device, calls)
        rate = None if rates is None else int(rates.gpu)
        spans = () if device.partitioned else self._samples.read(device, calls, rate, now, ahead)
        stamp = self._buffer.stamp(now, ahead)
        processes, graphics = (None, ()) if device.partitioned else self._processes.of_gpu(device, calls, stamp)
        memory = gauges.read_memory(device.unsupported, calls, device.handle) if "memory" in collect else None
        values = self._fields.read(device, calls)
        counted_at = clock()
        temperatures = values.each("temperatures")
        fan = None
        if "temperature" in collect:
            degrees = gauges.read_temperature(device, calls)
            temperatures = temperatures if degrees is None else (("gpu", degrees), *temperatures)
            fan = gauges.read_fan(device, calls)
        power, power_limit = self._power(values) if "power" in collect else (None, None)
        self._check_energy(values, power)
        if "ecc" in collect and now >= self._sram_at:
            self._sram_at = now + self._sram_every
            self._sram = gauges.read_sram_errors(device, calls)
        action = values.one("recovery_action")
        return replace(
            device.unread(),
            spans=spans,
            utilization=ratio(rate),
            memory_activity=ratio(None if rates is None else int(rates.memory)),
            encoder_utilization=None if device.partitioned else gauges.read_encoder(device, calls),
            decoder_utilization=None if device.partitioned else gauges.read_decoder(device, calls),
            memory_used=None if memory is None else memory[0],
            memory_total=None if memory is None else memory[1],
            memory_reserved=None if memory is None else memory[2],
            power=power,
            power_limit=power_limit,
            energy=None if self._energy_stuck else values.one("energy"),
            temperatures=temperatures,
            fan=fan,
            clocks=gauges.read_clocks(device, calls) if "clocks" in collect else (),
            performance_state=gauges.read_performance_state(device, calls) if "clocks" in collect else None,
            processes=processes,
            graphics=graphics,
            throttle=values.each("throttle"),
            ecc_errors=values.each("ecc_errors") + self._sram.counts,
            sram_threshold_exceeded=self._sram.threshold_exceeded,
            remapped_rows=values.each("remapped_rows"),
            remap_pending=values.flag("remap_pending"),
            remap_failed=values.flag("remap_failed"),
            retired_pages=values.each("retired_pages"),
            recovery_action=None if action is None else int(action),
            pcie_replays=values.one("pcie_replays"),
            pcie_bytes=self._pcie_bytes(values, activity, now),
            nvlink_bytes=values.each("nvlink_bytes"),
            cycles=cycles,
            activity=activity,
            counted_at=counted_at,
            carried=values.carried,
            stopped=frozenset({("energy", "")}) if self._energy_stuck else frozenset(),
            finished=() if processes is None or "accounting" not in collect else self._ended(processes + graphics),
        )

    def _activity(self, metrics: Metrics, now: float) -> tuple[Activity | None, Counts]:
        if self._sampler is None:
            self._sampler = Sampler(metrics, self._calls, pynvml.nvmlGpmSampleGet, self.device.handle)
        return self._sampler.read(now), self._sampler.cycles

    def _power(self, values: Values) -> tuple[float | None, float | None]:
        """Watts now and at most; from their own calls where the GPU or the driver has no such field."""
        power, limit = values.one("power"), values.one("power_limit")
        if power is None and self._fields.lacks("power"):
            power = gauges.read_power(self.device, self._calls)
        if limit is None and self._fields.lacks("power_limit"):
            limit = gauges.read_power_limit(self.device, self._calls)
        return power, limit

    def _check_energy(self, values: Values, power: float | None) -> None:
        """Compare two readings of the energy counter: it is stuck if they are equal and the sensor measures power."""
        energy = values.one("energy")
        if energy is None or ("energy", "") in values.carried:
            return
        self._energy_stuck = energy == self._energy and power is not None and power > 0
        self._energy = energy
        if self._energy_stuck:
            self._dropped["energy"] += 1

    def _pcie_bytes(self, values: Values, activity: Activity | None, now: float) -> Counts:
        rates = dict(activity.pcie) if activity is not None else {}
        counted = (
            (direction, self._pcie.setdefault(direction, ByteCount()).read(now, value, rates.get(direction)))
            for direction, value in values.each("pcie_bytes")
        )
        return tuple((direction, total) for direction, total in counted if total is not None)

    def _ended(self, processes: tuple[Process, ...]) -> tuple[FinishedProcess, ...]:
        return self._finished.read(self.device, self._calls, (process.pid for process in processes))
