"""A reader on the double, on a clock that a test moves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType
from typing import Any, Self

import pynvml
import pytest

from dutycycle_exporter.collected import DEFAULT
from dutycycle_exporter.model import GpuReading, Snapshot, Xid
from dutycycle_exporter.nvml import NvmlReader
from tests.fakes.clock import FakeClock
from tests.fakes.nvml import H100, Driver, Model


class Rack:
    """GPUs and the reader of them; `collect` is what it reads beside the default."""

    def __init__(
        self,
        driver: Driver,
        clock: FakeClock,
        *,
        interval: float,
        time_scale: float,
        collect: frozenset[str],
        timer: Callable[[], float],
    ) -> None:
        self.driver = driver
        self.clock = clock
        self.interval = interval
        self.step = 0.0
        """By how many seconds the time of day has been set."""
        self.xids: list[Xid] = []
        """Those that were told so far."""
        self.reader = NvmlReader(
            interval=interval,
            time_scale=time_scale,
            collect=collect,
            on_xid=self.xids.append,
            clock=lambda: self.clock.now + self.step,
            timer=timer,
        )
        self.snapshot = Snapshot(0.0, ())

    def turn(self, turns: int = 1, *, seconds: float | None = None) -> Self:
        """Lets an interval pass and takes a snapshot, as often as told."""
        for _ in range(turns):
            self.clock.advance(self.interval if seconds is None else seconds)
            self.driver.step()
            self.snapshot = self.reader.read(self.clock.now + self.step, self.clock.now)
        return self

    @property
    def gpus(self) -> list[GpuReading]:
        return [reading for reading in self.snapshot.gpus if not reading.mig]

    @property
    def instances(self) -> list[GpuReading]:
        return [reading for reading in self.snapshot.gpus if reading.mig]

    @property
    def gpu(self) -> GpuReading:
        """The first."""
        return self.gpus[0]


@pytest.fixture
def unname(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has NVML say an empty name for the device of that UUID, as if that were an answer."""

    def hide(uuid: str) -> None:
        real = pynvml.nvmlDeviceGetUUID

        @functools.wraps(real)
        def answer(handle: Any) -> str:
            said = str(real(handle))
            return "" if said == uuid else said

        monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", answer)

    return hide


@pytest.fixture
def make_rack(
    nvml_driver: Callable[..., Driver], pynvml_double: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Rack]]:
    """Makes a rack; `before(driver)` is called before NVML is initialised, and `timer(driver)` tells the seconds that
    turns take: none, however slow the machine is, where it is not given.
    """
    with ExitStack() as stack:

        def make(
            gpus: int = 1,
            model: Model = H100,
            *,
            interval: float = 5.0,
            time_scale: float = 1.0,
            collect: frozenset[str] = DEFAULT,
            driver_version: str = "580.95.05",
            before: Callable[[Driver], Any] | None = None,
            timer: Callable[[Driver], float] | None = None,
        ) -> Rack:
            clock = FakeClock()
            driver = nvml_driver(clock=clock, time_scale=time_scale)
            driver.set_driver(driver_version, cuda=13000)
            for _ in range(gpus):
                driver.add_gpu(model)
            if before is not None:
                before(driver)
            monkeypatch.setenv("NVML_DOUBLE_STATE", driver.environment["NVML_DOUBLE_STATE"])
            rack = Rack(
                driver,
                clock,
                interval=interval,
                time_scale=time_scale,
                collect=collect,
                timer=(lambda: 0.0) if timer is None else functools.partial(timer, driver),
            )
            stack.callback(rack.reader.close)
            return rack

        yield make
