"""Arrays that NVML fills in one call, where pynvml's function of the same name takes two, the first for the size."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml

_MOST = 65536
"""Structures in an array at most, whatever NVML says that it needs."""


class Answers:
    """What one function of NVML answers, in an array that is kept and grows where it was too small."""

    def __init__(self, function: str, structure: Any, length: int) -> None:
        """`structure` is pynvml's, and there are `length` of it to begin with."""
        self.function = function
        self._structure = structure
        self._array = (structure * length)()

    def fill(self, ask: Callable[[Any, Any, Any], int]) -> bytes:
        """The structures that NVML filled, one after another. Raises NVMLError.

        `ask(function, count, array)` makes the call and gives what it returned, an nvmlReturn_t.
        """
        while True:
            room = len(self._array)
            count = ctypes.c_uint(room)
            code = ask(pynvml._nvmlGetFunctionPointer(self.function), ctypes.byref(count), self._array)  # noqa: SLF001
            if code == pynvml.NVML_ERROR_INSUFFICIENT_SIZE and room < count.value <= _MOST:
                self._array = (self._structure * max(count.value, min(2 * room, _MOST)))()
                continue
            if code != pynvml.NVML_SUCCESS:
                raise pynvml.NVMLError(code)
            found = ctypes.string_at(self._array, min(count.value, room) * ctypes.sizeof(self._structure))
            if count.value >= room < _MOST:
                # There may be more than that: the next call finds out.
                self._array = (self._structure * (2 * room))()
            return found
