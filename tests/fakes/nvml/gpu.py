"""One GPU of the double: turns what runs on it into samples, gauges and counters, up to a given instant."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from . import layout
from .accounts import Accounts
from .counters import Profile, Share, Traffic
from .description import describe
from .layout import Device
from .models import Model
from .partition import Instance, cuts, free_id
from .process_table import Present, clear_sample, everywhere, percent, share_sample, synchronize
from .state import StateFile
from .timeline import Timeline

CLOCKS_EVENT_GPU_IDLE = 1
_NAMESPACE = uuid.UUID("6e766d6c-646f-4362-8c65-000000000000")


def gpu_uuid(node: str, slot: int) -> str:
    """The UUID of a node's GPU: the same in every run of a test."""
    return f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{slot}')}"


def instance_uuid(node: str, slot: int, profile: str, place: int) -> str:
    """The UUID of a MIG instance: the same in every run of a test."""
    return f"MIG-{uuid.uuid5(_NAMESPACE, f'{node}/{slot}/{profile}/{place}')}"


class Gpu:
    """The state of one slot, in private memory: `advance` brings it up to date, its driver publishes it."""

    def __init__(
        self,
        slot: int,
        model: Model,
        *,
        uuid: str,
        minor: int,
        node: str,
        start_us: int,
        time_scale: float,
        sample_period: float,
        capacity: int,
        samples_when_idle: bool,
        events: bool,
    ) -> None:
        self.slot = slot
        self.model = model
        self.uuid = uuid
        self.timeline = Timeline(time_scale)
        self.clock_shift_us = 0
        self.device = Device(presence=layout.PRESENT)
        self.instances: dict[int, Instance] = {}
        self.profiling = Profile(start_us)
        self.traffic = Traffic(nvlink=model.nvlinks > 0)
        self.accounts = Accounts(self.device)
        self._node = node
        self._former: list[Instance] = []
        self._generation = 0
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
        describe(self.device, model, slot, uuid, minor, events=events)

    @property
    def bus_id(self) -> str:
        """PCI address in the form of sysfs: 0000:1b:00.0."""
        identity = self.device.identity
        return f"{identity.pci_domain:04x}:{identity.pci_bus:02x}:{identity.pci_device:02x}.0"

    def timeline_of(self, instance: int | None) -> Timeline:
        """What runs on a MIG instance, by its index; on the whole GPU. ValueError where that cannot be."""
        if instance is None:
            if self.partitioned:
                raise ValueError(f"GPU {self.slot} is partitioned: jobs run on its instances")
            return self.timeline
        if instance not in self.instances:
            raise ValueError(f"GPU {self.slot} has no MIG instance {instance}")
        return self.instances[instance].timeline

    @property
    def partitioned(self) -> bool:
        return bool(self.device.telemetry.mig_current == 1)

    def partition(self, profiles: Sequence[str | None] | None, now_us: int) -> None:
        """Cuts the GPU into instances by place, None leaving a hole; or makes it whole."""
        wanted = cuts(self.model, profiles or [])
        if profiles is not None and self.timeline.present(now_us):
            raise ValueError(f"jobs run on GPU {self.slot}")
        for place, instance in list(self.instances.items()):
            if place not in wanted or wanted[place] != instance.profile:
                instance.end(now_us)
                self._former.append(self.instances.pop(place))
                self.device.instances[place] = layout.Instance()
        for place, cut in wanted.items():
            if place not in self.instances:
                self._generation += 1
                instance = self.instances[place] = Instance(
                    cut,
                    uuid=instance_uuid(self._node, self.slot, cut.name, place),
                    generation=self._generation,
                    gpu_instance=free_id(cut, {other.gpu_instance for other in self.instances.values()}),
                    time_scale=self.timeline.time_scale,
                    start_us=now_us,
                )
                instance.describe(self.device.instances[place], self.model)
        self.instances = dict(sorted(self.instances.items()))
        mode = int(profiles is not None)
        self.device.telemetry.mig_current = self.device.telemetry.mig_pending = mode

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
        present = everywhere(self.timeline, self.instances, now_us)
        synchronize(self.device, present)
        # CUDA would refuse what does not fit.
        room = self.model.memory - self.model.reserved
        self.device.telemetry.memory_used = min(room, sum(memory for _, memory, _ in present))
        due = int((now_us - self._start_us) // self._period_us)
        # After a long stall only what the buffer would still hold; the counters below miss nothing.
        first = max(self._sampled, due - self.device.gpu.capacity)
        for number in range(first, due):
            self._take_sample(self._boundary(number), self._boundary(number + 1))
        self._sampled = max(self._sampled, due)
        self._integrate(now_us, present)

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
        return self._joules_of(self._shares(start_us, end_us), start_us, end_us)

    def _shares(self, start_us: float, end_us: float) -> list[Share]:
        """Busy seconds of what ran on the GPU and on its instances, past ones included."""
        shares = [(run, busy, 1.0) for run, busy in self.timeline.busy_by_run(start_us, end_us)]
        for instance in (*self.instances.values(), *self._former):
            part = instance.profile.share
            shares += [(run, busy, part) for run, busy in instance.timeline.busy_by_run(start_us, end_us)]
        return shares

    def _joules_of(self, shares: list[Share], start_us: float, end_us: float) -> float:
        idle, limit = self.model.idle_power, self.model.power_limit
        joules = idle * (end_us - start_us) / 1e6
        for run, busy, part in shares:
            if run.load.power_watts is None:
                joules += busy * part * (limit - idle) * run.load.power_factor
            else:
                begin, end = (self.timeline.run_time(run, at) for at in (start_us, end_us))
                played = run.load.power_watts.integral(end) - run.load.power_watts.integral(begin)
                joules += (played - idle * (end - begin)) / self.timeline.time_scale
        return joules

    def _boundary(self, number: int) -> int:
        return self._start_us + round(number * self._period_us)

    def _take_sample(self, start_us: int, end_us: int) -> None:
        length = (end_us - start_us) / 1e6
        shares = self._shares(start_us, end_us)
        gpu = percent(sum(busy * part for _, busy, part in shares), length)
        memory = percent(sum(busy * part * run.load.memory_activity for run, busy, part in shares), length)
        at = end_us + self.clock_shift_us
        power = round(self._joules_of(shares, start_us, end_us) / length * 1000)
        self._write_sample(self.device.power, at, power)
        telemetry = self.device.telemetry
        telemetry.power_mw = power
        telemetry.utilization_gpu, telemetry.utilization_memory = gpu, memory
        if gpu == 0 and not self._samples_when_idle:
            return
        slot = self._write_gpu_sample(at, gpu)
        self._write_sample(self.device.memory, at, memory)
        share_sample(self.device, slot, [(run, busy) for run, busy, _ in shares], length)

    def _write_gpu_sample(self, timestamp_us: int, value: int) -> int:
        slot = self._write_sample(self.device.gpu, timestamp_us, value)
        clear_sample(self.device, slot)
        return slot

    @staticmethod
    def _write_sample(ring: layout.Ring, timestamp_us: int, value: int) -> int:
        slot: int = ring.written % ring.capacity
        ring.samples[slot].timestamp_us = timestamp_us
        ring.samples[slot].value = value
        ring.written += 1
        return slot

    def _integrate(self, now_us: int, present: list[Present]) -> None:
        """Counters up to now, and the gauges that follow from the newest sample."""
        telemetry, since_us = self.device.telemetry, self._integrated_us
        if now_us > since_us:
            shares = self._shares(since_us, now_us)
            self._joules += self._joules_of(shares, since_us, now_us)
            for reason, share in self._throttle_shares.items():
                telemetry.throttle_ns[layout.THROTTLE_COUNTERS.index(reason)] += round(
                    (now_us - since_us) * 1000 * share
                )
            self.traffic.advance((now_us - since_us) / 1e6, sum(busy * part for _, busy, part in shares))
            self.traffic.write(telemetry)
            self.profiling.advance(shares, now_us)
            self.accounts.advance(
                [(run, busy) for run, busy, _ in shares], [(process, memory) for process, memory, _ in present], now_us
            )
            self._integrated_us = now_us
        self.profiling.write(self.device.gpm, map(self.traffic.bytes, layout.TRAFFIC))
        for place, instance in self.instances.items():
            used = sum(memory for _, memory, at in present if at == place)
            instance.advance(self.device.instances[place], since_us, now_us, used)
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
