"""A driver with a hand-moved clock, and what pynvml says of its GPUs: for tests of what NVML answers."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.fakes.clock import FakeClock

from .driver import Driver


class Machine:
    """Time stands still but for `advance`: every figure has one right value."""

    def __init__(
        self, nvml: ModuleType, make_driver: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch, **options: Any
    ) -> None:
        self.nvml = nvml
        self.clock = FakeClock()
        self.driver = make_driver(clock=self.clock, **options)
        monkeypatch.setenv("NVML_DOUBLE_STATE", str(self.driver.state.path))
        nvml.nvmlInit()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.driver.step()

    def handle(self, gpu: int = 0) -> Any:
        return self.nvml.nvmlDeviceGetHandleByIndex(gpu)

    def instance(self, index: int, gpu: int = 0) -> Any:
        """The handle of a MIG instance."""
        return self.nvml.nvmlDeviceGetMigDeviceHandleByIndex(self.handle(gpu), index)

    def samples(self, gpu: int = 0, last_seen: int = 0, kind: int | None = None) -> list[tuple[int, int]]:
        """(microseconds since the epoch, value), oldest first."""
        kind = self.nvml.NVML_GPU_UTILIZATION_SAMPLES if kind is None else kind
        value_type, samples = self.nvml.nvmlDeviceGetSamples(self.handle(gpu), kind, last_seen)
        assert value_type == self.nvml.NVML_VALUE_TYPE_UNSIGNED_INT
        return [(sample.timeStamp, sample.sampleValue.uiVal) for sample in samples]

    def values(self, gpu: int = 0) -> list[int]:
        return [value for _, value in self.samples(gpu)]

    def field(self, field: int, scope: int = 0, gpu: int = 0) -> int | None:
        """A field's value as its type says; None where the GPU does not have it."""
        [answer] = self.nvml.nvmlDeviceGetFieldValues(self.handle(gpu), [(field, scope)])
        if answer.nvmlReturn == self.nvml.NVML_ERROR_NOT_SUPPORTED:
            assert answer.value.ullVal == 0
            return None
        self.nvml._nvmlCheckReturn(answer.nvmlReturn)
        small = answer.valueType == self.nvml.NVML_VALUE_TYPE_UNSIGNED_INT
        return int(answer.value.uiVal if small else answer.value.ullVal)
