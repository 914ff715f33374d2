"""What NVML writes into our memory: a C library that a driver may have damaged, or of another release than it says."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pynvml
from hypothesis import example
from hypothesis import strategies as st

from dutycycle_exporter.collected import DEFAULT
from dutycycle_exporter.errors import NvmlUnavailableError
from dutycycle_exporter.model import Snapshot
from dutycycle_exporter.nvml import NvmlReader
from tests.fuzz.running import fuzz

COLLECTED = DEFAULT - {"xid"}  # whose thread is another test's
CODES = [value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_") and isinstance(value, int)]
TEXTS = (b"GPU-7d1bfc74", b"580.65.06", b"NVIDIA H200", b"", b"\xff\xfe", b"a\nb", b"\x1b[31m")
NUMBERS = (0, 1, 2, 7, 100, 101, 2**31 - 1, 2**31, 2**32 - 1)
WIDE = (0, 1, 50, 2**53, 2**63, 2**64 - 1, 0x7FF8000000000000, 0x7FF0000000000000, 0xFFF0000000000000)
RATES = (0.0, 0.5, 37.0, 100.0)
STRANGE_RATES = (*RATES, -1.0, 100.001, 1e308, math.inf, -math.inf, math.nan)
COUNTS = (0, 1, 2, 3, 9, 300, 2**32 - 1)


class Library:
    """Any function of libnvidia-ml: it writes something wherever it is given room, and never past it.

    `sound` is how often, of 100 calls, nothing but success and plain values come.
    """

    def __init__(self, seed: int, sound: int) -> None:
        self._random = random.Random(seed)
        self._sound = sound

    def function(self, name: str) -> Callable[..., int]:
        """In the place of pynvml's look-up. Raises what it raises for a name that a library lacks."""
        if not self._plain() and self._random.random() < 0.1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return lambda *arguments: self._call(name, arguments)

    def _plain(self) -> bool:
        return self._random.randrange(100) < self._sound

    def _call(self, name: str, arguments: tuple[Any, ...]) -> int:
        plain = self._plain()
        for argument in arguments:
            place = getattr(argument, "_obj", argument)
            if place is not argument or isinstance(argument, ctypes.Array):
                self._fill(name, place, plain)
        if name == "nvmlInitWithFlags" or (plain and None not in arguments):
            return int(pynvml.NVML_SUCCESS)
        if None in arguments and plain:
            return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
        return int(self._random.choice([pynvml.NVML_SUCCESS, *CODES]))

    def _fill(self, name: str, place: Any, plain: bool) -> None:
        if isinstance(place, ctypes.Array) and place._type_ is ctypes.c_char:
            text = (TEXTS[0] + b"%d" % self._random.randrange(3)) if plain else self._random.choice(TEXTS)
            content = text[: len(place) - 1] + b"\0"
        elif isinstance(place, ctypes.c_uint):
            known = (1, 2) if plain else COUNTS if "Count" in name or "Processes" in name else NUMBERS
            content = self._random.choice(known).to_bytes(4, "little")
        elif isinstance(place, pynvml.c_nvmlGpmMetricsGet_t):
            self._measure(place, plain)
            return
        elif plain:
            wide = self._random.choice((4, 8))
            content = b"".join(self._random.choice((0, 1, 50)).to_bytes(wide, "little") for _ in range(12))
        else:
            content = b"".join(self._random.choice(WIDE).to_bytes(8, "little") for _ in range(60))
        ctypes.memmove(ctypes.addressof(place), content, min(len(content), ctypes.sizeof(place)))

    def _measure(self, asked: Any, plain: bool) -> None:
        """Which metrics are asked for stands in it; a library that changed that would not be understood by design."""
        for place in range(asked.numMetrics):
            metric = asked.metrics[place]
            metric.nvmlReturn = 0 if plain or place % 2 else self._random.choice(CODES)
            metric.value = self._random.choice(RATES if plain else STRANGE_RATES)


@contextmanager
def loaded(library: Library) -> Iterator[None]:
    with (
        patch.object(pynvml, "_nvmlGetFunctionPointer", library.function),
        patch.object(pynvml, "_LoadNvmlLibrary", lambda: None),
    ):
        yield


def check_numbers(value: object, where: str) -> None:
    """Nothing endless, and nothing below zero but a temperature."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        assert math.isfinite(value), where
        assert value >= 0 or "temperature" in where, where
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            check_numbers(getattr(value, field.name), f"{where}.{field.name}")
    elif isinstance(value, dict):
        for key, one in value.items():
            check_numbers(one, f"{where}[{key}]")
    elif isinstance(value, list | tuple):
        for one in value:
            check_numbers(one, where)


def check(snapshot: Snapshot) -> None:
    check_numbers(snapshot, "snapshot")
    assert all(dropped >= 0 for dropped in snapshot.dropped.values())
    for gpu in snapshot.gpus:
        assert gpu.uuid
        assert gpu.utilization is None or gpu.utilization <= 1
        for span in gpu.spans:
            assert span.start <= span.end
            assert span.utilization <= 1


@fuzz(seed=st.integers(0, 2**32 - 1), sound=st.sampled_from([0, 50, 90, 98]), seconds=st.floats(0.01, 10_000))
@example(seed=7409, sound=90, seconds=1.0)
@example(seed=2_890_376_962, sound=90, seconds=1.0)
def test_whatever_nvml_writes_is_a_snapshot_or_told_as_unusable(seed: int, sound: int, seconds: float) -> None:
    with loaded(Library(seed, sound)):
        reader = None
        try:
            reader = NvmlReader(interval=5.0, collect=COLLECTED, timer=lambda: 0.0)
            for turn in range(4):
                check(reader.read(1_700_000_000.0 + turn * seconds, 1000.0 + turn * seconds))
        except NvmlUnavailableError as error:
            assert error.reason
            if error.last is not None:
                check(error.last)
        finally:
            if reader is not None:
                reader.close()
