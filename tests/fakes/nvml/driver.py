"""Drives the double: declares GPUs, runs jobs on them in scaled time, and makes single functions fail or hang."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from . import layout
from .compiler import Libraries
from .gpu import Gpu, gpu_uuid
from .models import H100, Model
from .patterns import Pattern
from .state import EVERY_GPU, StateFile
from .timeline import Load, Run
from .truth import Truth

SAMPLE_PERIOD = 1 / 6
"""Seconds, before the time scale: NVML's utilization samples come at about 6 Hz."""

CAPACITY = 100
"""Samples that NVML's buffer holds. A test in scaled time may keep more, lest a machine that stalls loses some."""


class Job:
    """A job that was started: what can still be done to it."""

    def __init__(self, driver: Driver, name: str, runs: dict[int, Run]) -> None:
        self.name = name
        self.started_us = min((run.start_us for run in runs.values()), default=0)
        self._driver = driver
        self._runs = runs

    @property
    def gpus(self) -> list[int]:
        return sorted(self._runs)

    def change(self, pattern: Pattern, gpu: int | None = None, *, power_factor: float | None = None) -> None:
        """From now on another pattern (from its beginning) on one GPU of the job, or on all of them."""
        with self._driver.changing() as now_us:
            for slot in self.gpus if gpu is None else [gpu]:
                load = replace(self._runs[slot].load, pattern=pattern)
                if power_factor is not None:
                    load = replace(load, power_factor=power_factor)
                self._replace(slot, load, now_us)

    def change_load(self, gpu: int, load: Load) -> None:
        """From now on another load on one GPU: other processes, other memory."""
        with self._driver.changing() as now_us:
            self._replace(gpu, load, now_us)

    def stop(self) -> None:
        """Ends the job, and with it its processes."""
        with self._driver.changing() as now_us:
            for run in self._runs.values():
                if run.end_us is None:
                    run.end_us = now_us

    def _replace(self, slot: int, load: Load, now_us: int) -> None:
        if self._runs[slot].end_us is not None:
            raise RuntimeError(f"{self.name} has ended")
        self._runs[slot].end_us = now_us
        self._runs[slot] = self._driver.add_run(slot, Run(self.name, load, now_us))


class Change:
    """While entered, no time passes for the double; on leaving, what was changed becomes visible at once."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def __enter__(self) -> int:
        return self._driver.begin_change()

    def __exit__(self, *_: object) -> None:
        self._driver.end_change()


class Driver:
    """A machine with GPUs, as its NVML shows it. A context manager; `start` makes time pass.

    Without `start` nothing moves until `step` is called, by a test that brings its own clock.
    """

    def __init__(
        self,
        path: Path,
        libraries: Libraries,
        *,
        node: str = "",
        time_scale: float = 1.0,
        sample_period: float = SAMPLE_PERIOD,
        capacity: int = CAPACITY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not 0 < capacity <= layout.MAX_SAMPLES:
            raise ValueError(f"a buffer of {capacity} samples; the shared block has room for {layout.MAX_SAMPLES}")
        self.libraries = libraries
        self.node = node or socket.gethostname()
        self.time_scale = time_scale
        self.state = StateFile(path, libraries)
        self.gpus: list[Gpu] = []
        self._lock = threading.RLock()
        self.truth = Truth(self.gpus, self._lock)
        self._sample_period = sample_period
        self._capacity = capacity
        self._clock = clock
        self._now_us = 0
        self._listeners: list[Callable[[int], None]] = []
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.set_driver("580.95.05", cuda=13000)

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a program finds this machine's NVML."""
        return {"LD_LIBRARY_PATH": str(self.libraries.directory), "NVML_DOUBLE_STATE": str(self.state.path)}

    def set_driver(self, version: str, *, cuda: int) -> None:
        """The driver's version, and CUDA's as NVML writes it (13000 is 13.0)."""
        system = layout.System(
            driver_version=version.encode(), nvml_version=f"{cuda // 1000}.{version}".encode(), cuda_driver_version=cuda
        )
        self.state.publish_system(system)

    def add_gpu(
        self, model: Model = H100, *, uuid: str | None = None, minor: int | None = None, samples_when_idle: bool = True
    ) -> Gpu:
        """Declares the next GPU. `samples_when_idle=False`: NVML's buffer runs dry while the GPU idles."""
        with self.changing() as now_us:
            slot = len(self.gpus)
            if slot == layout.MAX_DEVICES:
                raise ValueError(f"the shared block has room for {layout.MAX_DEVICES} GPUs")
            gpu = Gpu(
                slot,
                model,
                uuid=uuid or gpu_uuid(self.node, slot),
                minor=slot if minor is None else minor,
                start_us=now_us,
                time_scale=self.time_scale,
                sample_period=self._sample_period,
                capacity=self._capacity,
                samples_when_idle=samples_when_idle,
            )
            self.gpus.append(gpu)
        return gpu

    def run(self, name: str, loads: Mapping[int, Load]) -> Job:
        """Starts a job now, on the GPUs whose loads are given by index."""
        with self.changing() as now_us:
            return Job(self, name, {slot: self.add_run(slot, Run(name, load, now_us)) for slot, load in loads.items()})

    # Behaviour of the machine.

    def lose(self, gpu: int) -> None:
        """The GPU falls off the bus: every call about it answers GPU_IS_LOST, and it is still counted."""
        self._set_presence(gpu, layout.LOST)

    def vanish(self, gpu: int) -> None:
        """The GPU is gone from the count too: the indexes of those after it move down by one."""
        self._set_presence(gpu, layout.ABSENT)

    def restore(self, gpu: int) -> None:
        """The GPU is back, under its old UUID."""
        self._set_presence(gpu, layout.PRESENT)

    def force(self, gpu: int, **telemetry: int | None) -> None:
        """Holds gauges or counters of a GPU at given values (members of layout.Telemetry); None lets one go."""
        with self.changing():
            self.gpus[gpu].force(telemetry)

    def throttle(self, gpu: int, reason: str, share: float) -> None:
        """From now on a throttle counter (of layout.THROTTLE_COUNTERS) rises for `share` of the time."""
        with self.changing():
            self.gpus[gpu].throttle(reason, share)

    def ecc_errors(self, gpu: int, *, corrected: int, uncorrected: int, aggregate: bool = False) -> None:
        with self.changing():
            self.gpus[gpu].device.telemetry.ecc_errors[int(aggregate)][:] = [corrected, uncorrected]

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

    # Time.

    def on_step(self, listener: Callable[[int], None]) -> None:
        """Calls `listener` with the time in microseconds at every step, and before every change."""
        with self._lock:
            self._listeners.append(listener)

    def start(self) -> Driver:
        """Makes time pass in a background thread."""
        self._thread = threading.Thread(target=self._play, name="nvml-double", daemon=True)
        self._thread.start()
        return self

    def step(self) -> None:
        """Brings everything up to the present."""
        with self.changing():
            pass

    def close(self) -> None:
        """Stops time. The state file stays, for programs that still look at it."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.state.close()

    def _play(self) -> None:
        # Often enough for a sample to appear soon after its time, rarely enough to leave the machine to the tests.
        pause = min(0.1, max(0.04, self._sample_period / self.time_scale))
        while not self._stopping.wait(pause):
            self.step()

    # For Job and Change.

    def changing(self) -> Change:
        return Change(self)

    def begin_change(self) -> int:
        self._lock.acquire()
        try:
            self._advance()
        except BaseException:
            self._lock.release()
            raise
        return self._now_us

    def _advance(self) -> None:
        # A clock that was set back does not take the double back: its samples would be taken twice.
        self._now_us = max(self._now_us, round(self._clock() * 1e6))
        for gpu in self.gpus:
            gpu.advance(self._now_us)
        for listener in self._listeners:
            listener(self._now_us)

    def end_change(self) -> None:
        try:
            for gpu in self.gpus:
                gpu.advance(self._now_us)
                gpu.publish(self.state)
        finally:
            self._lock.release()

    def add_run(self, slot: int, run: Run) -> Run:
        self.gpus[slot].timeline.runs.append(run)
        return run

    def _set_presence(self, gpu: int, presence: int) -> None:
        with self.changing():
            self.gpus[gpu].device.presence = presence
