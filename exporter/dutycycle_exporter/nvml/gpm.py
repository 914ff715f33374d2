"""GPM: what the units of a GPU, or of a MIG instance, did between two samples of its profiling counters.

Two samples make a mean over the time between them: the one of the turn before, and a new one. The driver renews the
counters each 100 ms, and of two samples of the same ones it says, without an error, that nothing was done: they must
lie further apart. Hopper and later; it needs no privilege unless an administrator has restricted profiling, also while
we run: then it is tried again, ever more rarely.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pynvml

from dutycycle_exporter.model import Activity, Counts
from dutycycle_exporter.nvml.calls import ABSENT, Calls
from dutycycle_exporter.nvml.devices import Device

_SHORTEST = 0.11
"""Seconds between two samples that can be compared, with some to spare: NVML has a clock of its own."""

_RETRIES = 2
"""Turns in a row in which two samples that could not be compared are left to the next: NVML, by its own clock, may have
found them too close together.
"""
_FIRST_PAUSE = 10.0
_LONGEST_PAUSE = 300.0
"""Seconds without GPM after a failure, doubled at each."""

_MIB = 2.0**20
_FIRST_RAW_DRIVER = 595

_UNITS = (
    ("graphics", pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL),
    ("sm", pynvml.NVML_GPM_METRIC_SM_UTIL),
    ("sm_occupancy", pynvml.NVML_GPM_METRIC_SM_OCCUPANCY),
    ("tensor", pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL),
    ("tensor_hmma", pynvml.NVML_GPM_METRIC_HMMA_TENSOR_UTIL),
    ("tensor_imma", pynvml.NVML_GPM_METRIC_IMMA_TENSOR_UTIL),
    ("tensor_dfma", pynvml.NVML_GPM_METRIC_DFMA_TENSOR_UTIL),
    ("dram", pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL),
    ("fp64", pynvml.NVML_GPM_METRIC_FP64_UTIL),
    ("fp32", pynvml.NVML_GPM_METRIC_FP32_UTIL),
    ("fp16", pynvml.NVML_GPM_METRIC_FP16_UTIL),
)
"""Percent."""
_PCIE = (("rx", pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC), ("tx", pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC))
_NVLINK = (
    ("rx", pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC),
    ("tx", pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC),
)
"""MiB per second."""
_CYCLES = (("sm_elapsed", 248), ("sm_active", 249), ("tensor_active", 250))
"""Since the GPU was started: NVML_GPM_METRIC_SM_CYCLES_ELAPSED, _SM_CYCLES_ACTIVE, _MMA_CYCLES_ACTIVE."""

_METRIC = struct.Struct("=IId24x")
"""Of an nvmlGpmMetric_t: id, result, value, three pointers to its name and unit."""


class Metrics:
    """Asks what happened between two samples. One for all GPUs: the request is 20 kB."""

    def __init__(self, calls: Calls, driver: int, *, time_scale: float = 1.0) -> None:
        """`driver` is its major version."""
        self._calls = calls
        self.time_scale = time_scale
        self.clamped: Counter[str] = Counter()
        """Values over 1, by unit; whoever reads it clears it."""
        self.dropped = 0
        """Values that cannot be; likewise."""
        wanted = [*_UNITS, *_PCIE, *_NVLINK, *(_CYCLES if driver >= _FIRST_RAW_DRIVER else ())]
        self._request = pynvml.c_nvmlGpmMetricsGet_t()
        self._request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._request.numMetrics = len(wanted)
        for place, (_, number) in enumerate(wanted):
            self._request.metrics[place].metricId = number
        offset = type(self._request).metrics.offset
        self._answer = (ctypes.c_char * (len(wanted) * _METRIC.size)).from_buffer(self._request, offset)

    def between(self, before: Any, after: Any, unsupported: set[object]) -> dict[int, float] | None:
        """Values by NVML's number, those that are known; None where it failed, or where both samples are of the same
        counters: either is counted. Raises LostError.
        """
        self._request.sample1, self._request.sample2 = before, after
        if self._calls.ask(unsupported, pynvml.nvmlGpmMetricsGet, self._request) is None:
            return None
        answers = list(_METRIC.iter_unpack(self._answer))
        if _same_counters(answers):
            self._calls.note("nvmlGpmMetricsGet", "same_counters")
            return None
        found: dict[int, float] = {}
        for number, result, value in answers:
            if result == pynvml.NVML_SUCCESS:
                if math.isfinite(value) and value >= 0:
                    found[number] = value
                else:
                    self.dropped += 1
            elif result not in ABSENT:
                self._calls.count("nvmlGpmMetricsGet", result)
        return found

    def ratios(self, found: dict[int, float]) -> Counts:
        """Shares by unit; what is over 1 is taken as 1 and counted."""
        units = []
        for unit, number in _UNITS:
            percent = found.get(number)
            if percent is None:
                continue
            if percent > 100:
                self.clamped[unit] += 1
                percent = 100.0
            units.append((unit, percent / 100))
        return tuple(units)


class Sampler:
    """The samples of one GPU or MIG instance; `call(*arguments, sample)` fills one."""

    def __init__(self, metrics: Metrics, calls: Calls, call: Callable[..., Any], *arguments: Any) -> None:
        self._metrics = metrics
        self._calls = calls
        self._call = call
        self._arguments = arguments
        self._unsupported: set[object] = set()
        self._samples: list[Any] = []
        self._taken: float | None = None  # when the first of the samples was taken
        self._pause = self._first_pause = _FIRST_PAUSE / metrics.time_scale
        self._longest_pause = _LONGEST_PAUSE / metrics.time_scale
        self._failed = 0
        self._resume: float | None = None
        self.cycles: Counts = ()
        """The raw counters, as of the newest activity."""

    def read(self, now: float) -> Activity | None:
        """What happened since the previous call; None where that is not known. Raises LostError."""
        self.cycles = ()
        resting = self._resume is not None and now < self._resume
        too_soon = self._taken is not None and now - self._taken < _SHORTEST
        if resting or too_soon:
            return None
        start = self._taken
        samples = self._sample()
        if samples is None:
            self._postpone(now)
            return None
        self._taken = now
        if start is None or now <= start:
            return None
        found = self._metrics.between(*samples, self._unsupported)
        if found is None:
            self._failed += 1
            if self._failed <= _RETRIES:
                # The older one is kept to compare with: what happened since is not lost.
                self._samples.reverse()
                self._taken = start
            else:
                self._postpone(now)
            return None
        self._failed = 0
        self._pause, self._resume = self._first_pause, None
        self.cycles = tuple((name, found[number]) for name, number in _CYCLES if number in found)
        return Activity(
            start=start,
            end=now,
            units=self._metrics.ratios(found),
            pcie=tuple((direction, found[number] * _MIB) for direction, number in _PCIE if number in found),
            nvlink=tuple((direction, found[number] * _MIB) for direction, number in _NVLINK if number in found),
        )

    def retry(self) -> None:
        """Ask again also for what is not supported."""
        self._unsupported.clear()

    def close(self) -> None:
        """Give the samples back."""
        samples, self._samples, self._taken = self._samples, [], None
        for sample in samples:
            try:
                pynvml.nvmlGpmSampleFree(sample)
            except pynvml.NVMLError:
                # Nothing is left to be done with it.
                continue

    def _sample(self) -> tuple[Any, Any] | None:
        """The previous sample and a new one; None where that failed."""
        while len(self._samples) < 2:
            sample = self._calls.ask(self._unsupported, pynvml.nvmlGpmSampleAlloc)
            if sample is None:
                return None
            self._samples.append(sample)
        before, after = self._samples
        if self._calls.ask(self._unsupported, self._call, *self._arguments, after) is None:
            return None
        self._samples = [after, before]
        return before, after

    def _postpone(self, now: float) -> None:
        self._taken = None
        self._resume = now + self._pause
        self._pause = min(2 * self._pause, self._longest_pause)


def _same_counters(answers: Iterable[tuple[int, int, float]]) -> bool:
    """Whether no time lies between two samples, by their (number, result, value): memory bandwidth, a rate, is then no
    number, and everything else 0, which would pass for idle.
    """
    known = {number: value for number, result, value in answers if result == pynvml.NVML_SUCCESS}
    bandwidth = known.pop(pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL, 0.0)
    shares = (known.get(number, 0.0) for _, number in _UNITS)
    return math.isnan(bandwidth) and not any(shares)


def supported(device: Device, calls: Calls) -> bool | None:
    """Whether a GPU has GPM; None where that could not be found out this time. Raises LostError."""
    call = pynvml.nvmlGpmQueryDeviceSupport
    answer = calls.ask(device.unsupported, call, device.handle)
    if answer is None:
        return False if call in device.unsupported else None
    return bool(answer.isSupportedDevice)
