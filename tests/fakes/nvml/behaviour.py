"""What a test can do to the double beside running jobs: lose GPUs, force values, let functions fail or hang."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from . import layout
from .description import XID
from .gpu import Gpu
from .job import Change
from .state import EVERY_GPU, StateFile

BEYOND_ALL_PIDS = 2**22 + 1
"""Linux gives out no pid above 2**22."""


class Behaviour(ABC):
    """The part of the driver that makes its GPUs and functions behave. GPUs are given by their slot."""

    def __init__(self, state: StateFile) -> None:
        self.state = state
        self.gpus: list[Gpu] = []
        self._events = layout.EventLog()

    @abstractmethod
    def changing(self) -> Change:
        """A change of the double, visible as a whole when it is left."""

    # Behaviour of the machine.

    def lose(self, gpu: int) -> None:
        """The GPU falls off the bus: every call about it answers GPU_IS_LOST, and it is still counted."""
        self._set_presence(gpu, layout.LOST)

    def vanish(self, gpu: int) -> None:
        """The GPU is gone from the count too: the indexes of those after it move down by one."""
        self._set_presence(gpu, layout.ABSENT)

    def exclude(self, gpu: int) -> None:
        """The driver is told to leave the GPU out (NVreg_ExcludedGpus): as if it had vanished, but it says which."""
        self._set_presence(gpu, layout.EXCLUDED)

    def restore(self, gpu: int) -> None:
        """The GPU is back, under its old UUID."""
        self._set_presence(gpu, layout.PRESENT)

    def _set_presence(self, gpu: int, presence: int) -> None:
        with self.changing():
            self.gpus[gpu].device.presence = presence

    def force(self, gpu: int, **telemetry: int | None) -> None:
        """Holds gauges or counters of a GPU at given values (members of layout.Telemetry); None lets one go."""
        with self.changing():
            self.gpus[gpu].force(telemetry)

    def throttle(self, gpu: int, reason: str, share: float) -> None:
        """From now on a throttle counter (of layout.THROTTLE_COUNTERS) rises for `share` of the time."""
        with self.changing():
            self.gpus[gpu].throttle(reason, share)

    def traffic(self, gpu: int, **rates: float | None) -> None:
        """From now on so many bytes per second (pcie_tx, pcie_rx, nvlink_tx, nvlink_rx), whatever runs.

        None: again as much as the busy time suggests, as from the beginning.
        """
        if unknown := rates.keys() - set(layout.TRAFFIC):
            raise ValueError(f"no traffic called {sorted(unknown)}")
        with self.changing():
            self.gpus[gpu].traffic.set_rates(rates)

    def ecc_errors(self, gpu: int, *, corrected: int, uncorrected: int, aggregate: bool = False) -> None:
        with self.changing():
            self.gpus[gpu].device.telemetry.ecc_errors[int(aggregate)][:] = [corrected, uncorrected]

    def sram_errors(
        self,
        gpu: int,
        *,
        corrected: int = 0,
        parity: int = 0,
        sec_ded: int = 0,
        aggregate: bool = False,
        threshold_exceeded: bool = False,
    ) -> None:
        """Sets which part of the errors that `ecc_errors` set happened in SRAM, and whether they are too many."""
        self._set(gpu, sram_threshold_exceeded=int(threshold_exceeded))
        with self.changing():
            self.gpus[gpu].device.telemetry.sram_errors[int(aggregate)][:] = [corrected, parity, sec_ded]

    def retired_pages(self, gpu: int, *, sbe: int = 0, dbe: int = 0, pending: int = 0) -> None:
        """Pages that a GPU retired (a V100: later ones remap rows, and have none of this until it is called)."""
        self._set(gpu, retired_sbe=sbe, retired_dbe=dbe, retired_pending=pending)

    def remapped(
        self, gpu: int, *, corrected: int = 0, uncorrected: int = 0, pending: int = 0, failure: int = 0
    ) -> None:
        """Rows that a GPU remapped, whether one is pending a reset and whether one failed."""
        self._set(
            gpu,
            remapped_corrected=corrected,
            remapped_uncorrected=uncorrected,
            remapped_pending=pending,
            remapped_failure=failure,
        )

    def _set(self, gpu: int, **values: int) -> None:
        with self.changing():
            for name, value in values.items():
                setattr(self.gpus[gpu].device.telemetry, name, value)

    def xid(self, gpu: int, code: int, instance: int | None = None) -> None:
        """An XID happens on a GPU, or on one of its MIG instances (by its index)."""
        with self.changing():
            log = self._events
            event = log.events[log.written % layout.MAX_EVENTS]
            event.type, event.data, event.slot = XID, code, gpu
            event.gpu_instance = event.compute_instance = layout.NOT_AVAILABLE_U32
            if instance is not None:
                event.gpu_instance, event.compute_instance = self.gpus[gpu].instances[instance].gpu_instance, 0
            log.written += 1
            self.state.publish_events(log)

    def set_mig(self, gpu: int, profiles: Sequence[str | None] | None) -> list[str]:
        """Partitions a GPU: the instances' profiles (as 1g.10gb) by index, None leaving a hole; None ends MIG.

        Instances whose profile stays at its index live on, with what runs there; what ran on others ends. Returns the
        UUIDs of the present instances, by index without the holes. ValueError where the profiles do not fit, or jobs
        run on the whole GPU.
        """
        with self.changing() as now_us:
            self.gpus[gpu].partition(profiles, now_us)
            return [instance.uuid for instance in self.gpus[gpu].instances.values()]

    def gpm_excess(self, gpu: int, factor: float, instance: int | None = None) -> None:
        """From now on the profiling counters of a GPU or instance count `factor` of what is true: over 100 % too."""
        with self.changing():
            owner = self.gpus[gpu] if instance is None else self.gpus[gpu].instances[instance]
            owner.profiling.excess = factor

    def accounting(self, gpu: int, on: bool) -> None:
        """Turns accounting mode on, for processes that start from now on, or off, which forgets them all."""
        with self.changing() as now_us:
            self.gpus[gpu].accounts.switch(now_us, on=on)

    def crowd(self, gpu: int, count: int, *, first_pid: int = BEYOND_ALL_PIDS, memory: int = 2**20) -> None:
        """Adds idle compute processes of `memory` bytes under the pids from `first_pid` on; 0 sends them home.

        They are in the list of processes and nowhere else: not in the memory used, nor in any utilization.
        """
        with self.changing():
            device = self.gpus[gpu].device
            device.crowd, device.crowd_pid, device.crowd_memory = count, first_pid, memory

    def inject_sample(self, gpu: int, value: int, *, at: float | None = None, ring: str = "gpu") -> None:
        """Puts one more sample into a ring (gpu, memory, power), with any value and time."""
        with self.changing() as now_us:
            self.gpus[gpu].inject(value, now_us if at is None else round(at * 1e6), ring)

    def shift_clock(self, gpu: int, seconds: float) -> None:
        """Moves the timestamps of all later samples: back, they go below those of earlier ones."""
        with self.changing():
            self.gpus[gpu].clock_shift_us += round(seconds * 1e6)

    # Behaviour of functions: names as in NVML, with or without version; "ANY" is every function.

    def fail(self, function: str, result: int, gpu: int = EVERY_GPU, times: int = -1) -> None:
        """Makes a function answer an nvmlReturn_t: for ever, or for its next `times` calls."""
        self.state.fail(function, result, gpu, times)

    def hang(self, function: str, gpu: int = EVERY_GPU) -> None:
        """Makes a function block until `heal`, or until the calling process is killed."""
        self.state.hang(function, gpu)

    def slow(self, function: str, seconds: float, gpu: int = EVERY_GPU) -> None:
        """Makes every call of a function take that long (below one second) until `heal`."""
        self.state.slow(function, seconds, gpu)

    def heal(self, function: str, gpu: int = EVERY_GPU) -> None:
        """Ends what `fail`, `hang` and `slow` began with the same function and GPU."""
        self.state.heal(function, gpu)
