"""Drives the double: declares GPUs and runs jobs on them, in scaled time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from . import layout
from .behaviour import Behaviour
from .compiler import Libraries
from .gpu import Gpu, gpu_uuid
from .job import Change, Job, Place
from .models import H100, Model
from .state import StateFile
from .timeline import Load, Run
from .truth import Truth

SAMPLE_PERIOD = 1 / 6
"""Seconds, before the time scale: NVML's utilization samples come at about 6 Hz."""

CAPACITY = 100
"""Samples that NVML's buffer holds. A test in scaled time may keep more, lest a machine that stalls loses some."""

GPM_INTERVAL = 0.1
"""Seconds, before the time scale, that two profiling samples must be apart."""


class Driver(Behaviour):
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
        step: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`step`: seconds, before the time scale, between two steps of the background thread; None: a sample's. More
        spares work where many machines share a process: samples then appear in groups.
        """
        if not 0 < capacity <= layout.MAX_SAMPLES:
            raise ValueError(f"a buffer of {capacity} samples; the shared block has room for {layout.MAX_SAMPLES}")
        self.libraries = libraries
        self.node = node or socket.gethostname()
        self.time_scale = time_scale
        super().__init__(StateFile(path, libraries))
        self._lock = threading.RLock()
        self.truth = Truth(self.gpus, self._lock)
        self._sample_period = sample_period
        # Often enough for a sample to appear soon after its time, rarely enough to leave the machine to the tests.
        self._pause = min(0.1, max(0.04, (sample_period if step is None else step) / time_scale))
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
            driver_version=version.encode(),
            nvml_version=f"{cuda // 1000}.{version}".encode(),
            cuda_driver_version=cuda,
            gpm_interval_us=max(1, round(GPM_INTERVAL * 1e6 / self.time_scale)),
        )
        self.state.publish_system(system)

    def add_gpu(
        self,
        model: Model = H100,
        *,
        uuid: str | None = None,
        minor: int | None = None,
        samples_when_idle: bool = True,
        events: bool | None = None,
    ) -> Gpu:
        """Declares the next GPU.

        `samples_when_idle=False`: NVML's buffer runs dry while the GPU idles. `events`: whether one can register for
        events; None: as a data-centre GPU lets one and others do not.
        """
        with self.changing() as now_us:
            slot = len(self.gpus)
            if slot == layout.MAX_DEVICES:
                raise ValueError(f"the shared block has room for {layout.MAX_DEVICES} GPUs")
            gpu = Gpu(
                slot,
                model,
                uuid=uuid or gpu_uuid(self.node, slot),
                minor=slot if minor is None else minor,
                node=self.node,
                start_us=now_us,
                time_scale=self.time_scale,
                sample_period=self._sample_period,
                capacity=self._capacity,
                samples_when_idle=samples_when_idle,
                events=model.data_centre if events is None else events,
            )
            self.gpus.append(gpu)
        return gpu

    def run(self, name: str, loads: Mapping[int, Load] | Mapping[tuple[int, int], Load] | Mapping[Place, Load]) -> Job:
        """Starts a job now, on the GPUs whose loads are given by slot, or on MIG instances: {(slot, index): Load}."""
        with self.changing() as now_us:
            runs: dict[Place, Run] = {}
            for place, load in loads.items():
                runs[place] = self.add_run(place, Run(name, load, now_us))
            return Job(self, name, runs)

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
        while not self._stopping.wait(self._pause):
            self.step()

    # For Job and Change.

    def changing(self) -> Change:
        return Change(self._begin_change, self._end_change)

    def _begin_change(self) -> int:
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

    def _end_change(self) -> None:
        try:
            for gpu in self.gpus:
                gpu.advance(self._now_us)
                gpu.publish(self.state)
        finally:
            self._lock.release()

    def add_run(self, place: Place, run: Run) -> Run:
        slot, instance = (place, None) if isinstance(place, int) else place
        self.gpus[slot].timeline_of(instance).runs.append(run)
        return run
