"""One GPU of the double: turns what runs on it into samples, gauges and counters, up to a given instant."""

from __future__ import annotations

import ctypes
import uuid
from collections.abc import Mapping

from . import layout
from .layout import Device, Process, ProcessSample
from .models import Model
from .state import StateFile
from .timeline import GpuProcess, Run, Timeline

CLOCKS_EVENT_GPU_IDLE = 1
_NAMESPACE = uuid.UUID("6e766d6c-646f-4362-8c65-000000000000")


def gpu_uuid(node: str, slot: int) -> str:
    """The UUID of a node's GPU: the same in every run of a test."""
    return f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{slot}')}"


class Gpu:
    """The state of one slot, in private memory: `advance` brings it up to date, its driver publishes it."""

    def __init__(
        self,
        slot: int,
        model: Model,
        *,
        uuid: str,
        minor: int,
        start_us: int,
        time_scale: float,
        sample_period: float,
        capacity: int,
        samples_when_idle: bool,
    ) -> None:
        self.slot = slot
        self.model = model
        self.uuid = uuid
        self.timeline = Timeline(time_scale)
        self.clock_shift_us = 0
        self.device = Device(presence=layout.PRESENT)
        self._samples_when_idle = samples_when_idle
        self._start_us = start_us
        self._period_us = sample_period * 1e6 / time_scale
        self._sampled = 0
        self._integrated_us = start_us
        self._joules = 0.0
        self._throttle_shares: dict[str, float] = {}
        self._forced: dict[str, int] = {}
        for ring in (self.device.power, self.device.gpu, self.device.memory):
            ring.capacity = capacity
        self._describe(minor)

    @property
    def bus_id(self) -> str:
        """PCI address in the form of sysfs: 0000:1b:00.0."""
        identity = self.device.identity
        return f"{identity.pci_domain:04x}:{identity.pci_bus:02x}:{identity.pci_device:02x}.0"

    def _describe(self, minor: int) -> None:
        model, identity, telemetry = self.model, self.device.identity, self.device.telemetry
        identity.name = model.name.encode()
        identity.uuid = self.uuid.encode()
        identity.serial = f"165042{self.slot:07d}".encode()
        identity.vbios = b"96.00.74.00.01"
        identity.pci_bus = 0x1B + 0x11 * self.slot % 0xE0
        identity.pci_device_id = model.pci_device_id
        identity.pci_subsystem_id = 0x16C110DE
        identity.minor = minor
        identity.architecture = model.architecture
        identity.compute_major, identity.compute_minor = model.compute_capability
        identity.cores = model.cores
        identity.memory_total = model.memory
        identity.bar1_total = 1 << (model.memory - 1).bit_length()
        telemetry.memory_reserved = model.reserved
        limit = round(model.power_limit * 1000)
        telemetry.power_limit_mw = telemetry.power_limit_max_mw = telemetry.power_limit_default_mw = limit
        telemetry.power_limit_min_mw = limit * 2 // 7
        if model.data_centre:
            telemetry.fan_percent = layout.NOT_AVAILABLE_U32
            telemetry.ecc_current = telemetry.ecc_pending = 1
        else:
            telemetry.fan_percent = 30
            self._take_away_data_centre_features()
        telemetry.max_clock_mhz[:] = [model.sm_clock, model.sm_clock, model.memory_clock, model.sm_clock * 9 // 10]
        telemetry.clock_mhz[:] = telemetry.max_clock_mhz[:]
        telemetry.persistence_mode = 1
        telemetry.power_mw = round(model.idle_power * 1000)

    def _take_away_data_centre_features(self) -> None:
        telemetry = self.device.telemetry
        self.device.identity.serial = b""
        for name in (
            "mig_current",
            "mig_pending",
            "ecc_current",
            "ecc_pending",
            "remapped_corrected",
            "remapped_uncorrected",
            "remapped_pending",
            "remapped_failure",
            "memory_temperature",
        ):
            setattr(telemetry, name, layout.NOT_AVAILABLE_U32)
        for counts in telemetry.ecc_errors:
            counts[:] = [layout.NOT_AVAILABLE_U64] * 2
        telemetry.nvlink_rx_kib = telemetry.nvlink_tx_kib = layout.NOT_AVAILABLE_U64

    def force(self, values: Mapping[str, int | None]) -> None:
        """Holds members of the telemetry at given values, whatever runs; None lets one go again."""
        for name, value in values.items():
            if not isinstance(getattr(self.device.telemetry, name), int):
                raise TypeError(f"{name} is not one number")
            if value is None:
                self._forced.pop(name, None)
            else:
                self._forced[name] = value

    def throttle(self, reason: str, share: float) -> None:
        """From now on one of THROTTLE_COUNTERS rises for `share` of the time."""
        if reason not in layout.THROTTLE_COUNTERS:
            raise ValueError(f"no throttle counter {reason}")
        self._throttle_shares[reason] = share

    def inject(self, value: int, timestamp_us: int, ring: str = "gpu") -> None:
        """Puts a sample of any value and time after the newest one; no process had a part in it."""
        if ring == "gpu":
            self._write_gpu_sample(timestamp_us, value)
            self.device.telemetry.utilization_gpu = value
        else:
            self._write_sample(getattr(self.device, ring), timestamp_us, value)
        if ring == "memory":
            self.device.telemetry.utilization_memory = value

    def advance(self, now_us: int) -> None:
        """Takes every sample that is due, and integrates the counters."""
        self._sync_processes(now_us)
        due = int((now_us - self._start_us) // self._period_us)
        # After a long stall only what the buffer would still hold; the counters below miss nothing.
        first = max(self._sampled, due - self.device.gpu.capacity)
        for number in range(first, due):
            self._take_sample(self._boundary(number), self._boundary(number + 1))
        self._sampled = max(self._sampled, due)
        self._integrate(now_us)

    def publish(self, state: StateFile) -> None:
        """Shows the present state to the library, with the forced values in place of the real ones."""
        telemetry = self.device.telemetry
        real = {name: getattr(telemetry, name) for name in self._forced}
        for name, value in self._forced.items():
            setattr(telemetry, name, value)
        state.publish_device(self.slot, self.device)
        for name, value in real.items():
            setattr(telemetry, name, value)

    def energy_joules(self, start_us: float, end_us: float) -> float:
        """Energy over [start, end), exactly: idle power all the time, and each run's share of the rest while busy."""
        return self._joules_of(self.timeline.busy_by_run(start_us, end_us), start_us, end_us)

    def _joules_of(self, runs: list[tuple[Run, float]], start_us: float, end_us: float) -> float:
        idle, limit = self.model.idle_power, self.model.power_limit
        joules = idle * (end_us - start_us) / 1e6
        for run, busy in runs:
            if run.load.power_watts is None:
                joules += busy * (limit - idle) * run.load.power_factor
            else:
                begin, end = (self.timeline.run_time(run, at) for at in (start_us, end_us))
                played = run.load.power_watts.integral(end) - run.load.power_watts.integral(begin)
                joules += (played - idle * (end - begin)) / self.timeline.time_scale
        return joules

    def _boundary(self, number: int) -> int:
        return self._start_us + round(number * self._period_us)

    def _take_sample(self, start_us: int, end_us: int) -> None:
        length = (end_us - start_us) / 1e6
        runs = self.timeline.busy_by_run(start_us, end_us)
        gpu = _percent(sum(busy for _, busy in runs), length)
        memory = _percent(sum(busy * run.load.memory_activity for run, busy in runs), length)
        at = end_us + self.clock_shift_us
        power = round(self._joules_of(runs, start_us, end_us) / length * 1000)
        self._write_sample(self.device.power, at, power)
        telemetry = self.device.telemetry
        telemetry.power_mw = power
        telemetry.utilization_gpu, telemetry.utilization_memory = gpu, memory
        if gpu == 0 and not self._samples_when_idle:
            return
        slot = self._write_gpu_sample(at, gpu)
        self._write_sample(self.device.memory, at, memory)
        for run, busy in runs:
            self._share_among_processes(run, busy, slot, length)

    def _share_among_processes(self, run: Run, busy: float, slot: int, length: float) -> None:
        pids = {process.pid for process in run.load.processes}
        for process in self.device.processes[: self.device.process_count]:
            if process.pid in pids:
                sample = process.utilization[slot]
                sample.sm += _percent(busy / len(pids), length)
                sample.memory += _percent(busy * run.load.memory_activity / len(pids), length)

    def _write_gpu_sample(self, timestamp_us: int, value: int) -> int:
        slot = self._write_sample(self.device.gpu, timestamp_us, value)
        for process in self.device.processes[: self.device.process_count]:
            process.utilization[slot] = ProcessSample()
        return slot

    @staticmethod
    def _write_sample(ring: layout.Ring, timestamp_us: int, value: int) -> int:
        slot: int = ring.written % ring.capacity
        ring.samples[slot].timestamp_us = timestamp_us
        ring.samples[slot].value = value
        ring.written += 1
        return slot

    def _sync_processes(self, now_us: int) -> None:
        """Brings the table of processes up to date, keeping the past of those that stay."""
        wanted = self._processes(now_us)
        if len(wanted) > layout.MAX_PROCESSES:
            raise ValueError(f"{len(wanted)} processes on one GPU, the block has room for {layout.MAX_PROCESSES}")
        table, count = self.device.processes, self.device.process_count
        if [(p.pid, p.kind) for p in table[:count]] != [(process.pid, process.kind) for process, _ in wanted]:
            past = {p.pid: bytes(p.utilization) for p in table[:count]}
            for i, (process, _) in enumerate(wanted):
                table[i] = Process(pid=process.pid, kind=process.kind)
                if process.pid in past:
                    ctypes.memmove(table[i].utilization, past[process.pid], len(past[process.pid]))
            self.device.process_count = len(wanted)
        for i, (_, memory) in enumerate(wanted):
            table[i].memory_used = memory
        # CUDA would refuse what does not fit.
        room = self.model.memory - self.model.reserved
        self.device.telemetry.memory_used = min(room, sum(memory for _, memory in wanted))

    def _processes(self, now_us: int) -> list[tuple[GpuProcess, int]]:
        """Processes of an instant with their memory by then."""
        found = []
        for run in self.timeline.present(now_us):
            growth = run.load.memory_growth
            grown = min(1.0, self.timeline.run_time(run, now_us) / growth) if growth else 1.0
            found += [(process, round(process.memory * grown)) for process in run.load.processes]
        return found

    def _integrate(self, now_us: int) -> None:
        """Counters up to now, and the gauges that follow from the newest sample."""
        telemetry, since_us = self.device.telemetry, self._integrated_us
        if now_us > since_us:
            runs = self.timeline.busy_by_run(since_us, now_us)
            busy = sum(seconds for _, seconds in runs)
            self._joules += self._joules_of(runs, since_us, now_us)
            for reason, share in self._throttle_shares.items():
                telemetry.throttle_ns[layout.THROTTLE_COUNTERS.index(reason)] += round(
                    (now_us - since_us) * 1000 * share
                )
            telemetry.pcie_rx_bytes += round(busy * 2e9)
            telemetry.pcie_tx_bytes += round(busy * 5e8)
            if self.model.data_centre:
                telemetry.nvlink_rx_kib += round(busy * 2e7)
                telemetry.nvlink_tx_kib += round(busy * 2e7)
            self._integrated_us = now_us
        telemetry.time_us = now_us
        telemetry.energy_mj = round(self._joules * 1000)
        load = telemetry.power_mw / 1000 / self.model.power_limit
        telemetry.temperature = round(28 + 40 * load)
        if self.model.data_centre:
            telemetry.memory_temperature = telemetry.temperature + 8
        busy_now = telemetry.utilization_gpu > 0
        telemetry.clocks_event_reasons = 0 if busy_now else CLOCKS_EVENT_GPU_IDLE
        clock = self.model.sm_clock if busy_now else 345
        telemetry.clock_mhz[0] = telemetry.clock_mhz[1] = clock


def _percent(busy: float, length: float) -> int:
    """Whole percent, halves up."""
    return int(100 * busy / length + 0.5)
