"""The duty cycle of a whole GPU: NVML's sample buffer, and the newest rate where the buffer has nothing."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import pynvml

from dutycycle_exporter.model import Span
from dutycycle_exporter.nvml.answers import Answers
from dutycycle_exporter.nvml.calls import ABSENT, Calls
from dutycycle_exporter.nvml.devices import Device
from dutycycle_exporter.sampling import SampleBuffer

# Of an nvmlSample_t: microseconds, and a value of which this kind of sample fills the first half.
_SAMPLE = struct.Struct("=QI4x")


def read_rates(device: Device, calls: Calls) -> Any:
    """`gpu` and `memory` in percent; None where there are none. Raises LostError."""
    return calls.ask(device.unsupported, pynvml.nvmlDeviceGetUtilizationRates, device.handle)


class SampleReader:
    """Reads the sample buffer of one GPU. `buffer` makes spans of it."""

    def __init__(self, buffer: SampleBuffer) -> None:
        self._buffer = buffer
        self._polled: list[Span] = []
        # More than twice what the drivers hold that were seen (72 to 120).
        self._answers = Answers("nvmlDeviceGetSamples", pynvml.c_nvmlSample_t, 256)

    def read(self, device: Device, calls: Calls, rate: int | None, now: float, ahead: float) -> tuple[Span, ...]:
        """New measured time; `rate` is the newest rate in percent, None where it is not known; `ahead` as in
        `SampleBuffer.take`. Raises LostError.
        """
        spans, self._polled = self._polled, []
        return (*spans, *self._new(device, calls, rate, now, ahead))

    def lacks_buffer(self, device: Device) -> bool:
        """Return whether the GPU has no sample buffer but a rate, which is to be polled between two turns."""
        missing = self._answers.function in device.unsupported
        return missing and pynvml.nvmlDeviceGetUtilizationRates not in device.unsupported and not device.partitioned

    def poll(self, device: Device, calls: Calls, now: float) -> None:
        """Read the rate, for whose time the next `read` has a span. Raises LostError."""
        rates = read_rates(device, calls)
        if rates is not None:
            self._polled += self._buffer.take_rate(int(rates.gpu), now, only_source=True)

    def _new(self, device: Device, calls: Calls, rate: int | None, now: float, ahead: float) -> tuple[Span, ...]:
        name, buffer = self._answers.function, self._buffer
        samples: list[tuple[int, int]] = []
        if name not in device.unsupported:
            if calls.too_late(name):
                return ()
            try:
                samples = self._samples(device)
            except pynvml.NVMLError as error:
                # NOT_FOUND is how an idle GPU answers.
                if error.value != pynvml.NVML_ERROR_NOT_FOUND:
                    calls.failed_with(device.unsupported, name, error.value, name)
                    if error.value not in ABSENT:
                        return ()
        spans = buffer.take(samples, now, ahead)
        if rate is not None:
            spans += buffer.take_rate(rate, now, only_source=name in device.unsupported)
        return tuple(spans)

    def _samples(self, device: Device) -> list[tuple[int, int]]:
        """(microseconds, percent) of all that there are: stamps do not tell which are new. Raises NVMLError."""
        kind, last_seen = ctypes.c_uint(), ctypes.c_ulonglong(0)

        def ask(function: Any, count: Any, array: Any) -> int:
            wanted = pynvml.NVML_GPU_UTILIZATION_SAMPLES
            return int(function(device.handle, wanted, last_seen, ctypes.byref(kind), count, array))

        return list(_SAMPLE.iter_unpack(self._answers.fill(ask)))
