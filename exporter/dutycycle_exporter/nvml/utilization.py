"""The duty cycle of a whole GPU: NVML's sample buffer, and the newest rate where the buffer has nothing."""

from __future__ import annotations

import struct
from typing import Any

import pynvml

from dutycycle_exporter.model import Span
from dutycycle_exporter.nvml.calls import ABSENT, Calls
from dutycycle_exporter.nvml.devices import Device
from dutycycle_exporter.sampling import SampleBuffer

# Of an nvmlSample_t: microseconds, and a value of which this kind of sample fills the first half.
_SAMPLE = struct.Struct("=QI4x")


def read_rates(device: Device, calls: Calls) -> Any:
    """`gpu` and `memory` in percent; None where there are none. Raises LostError."""
    return calls.ask(device.unsupported, pynvml.nvmlDeviceGetUtilizationRates, device.handle)


def read_spans(device: Device, calls: Calls, buffer: SampleBuffer, rate: int | None, now: float) -> tuple[Span, ...]:
    """New measured time of a GPU. Raises LostError."""
    call = pynvml.nvmlDeviceGetSamples
    samples: list[tuple[int, int]] = []
    if call not in device.unsupported:
        try:
            _, found = call(device.handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, buffer.since(now))
            samples = [_SAMPLE.unpack(sample) for sample in found]
        except pynvml.NVMLError as error:
            # NOT_FOUND is how an idle GPU answers.
            if error.value != pynvml.NVML_ERROR_NOT_FOUND:
                calls.failed_with(device.unsupported, call.__name__, error.value, call)
                if error.value not in ABSENT:
                    return ()
    spans = buffer.take(samples, now)
    if rate is not None:
        spans += buffer.take_rate(rate, now, only_source=call in device.unsupported)
    return tuple(spans)
