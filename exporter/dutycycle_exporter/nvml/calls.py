"""The edge to pynvml: makes calls, learns which are not supported, and translates errors, once for all that read."""

from __future__ import annotations

import ctypes
import errno
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pynvml

from dutycycle_exporter.errors import NvmlUnavailableError

_T = TypeVar("_T")

_LIBRARY = "libnvidia-ml.so.1"

_ERROR_NAMES = {
    value: name.removeprefix("NVML_ERROR_").lower()
    for name, value in vars(pynvml).items()
    if name.startswith("NVML_ERROR_") and isinstance(value, int)
}
ABSENT = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
"""Not a failure: the device, the driver or the library does not have it."""

_FATAL = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)


class LostError(Exception):
    """This GPU has fallen off the bus."""


class Calls:
    """Counts the failures of all calls of a turn, and makes none for which there is no time; `timer` tells seconds."""

    def __init__(self, timer: Callable[[], float] = time.perf_counter) -> None:
        self._timer = timer
        self._until = math.inf
        self._failures: Counter[tuple[str, str]] = Counter()

    @property
    def failed(self) -> bool:
        """Whether some call failed since the failures were taken."""
        return bool(self._failures)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """After that time no more calls are made, as long as this is not left."""
        self._until = self._timer() + seconds
        try:
            yield
        finally:
            self._until = math.inf

    @property
    def spent(self) -> bool:
        """Whether there is no time left."""
        return self._timer() > self._until

    def too_late(self, name: str) -> bool:
        """Whether there is no time left for a call: then it counts as failed."""
        if not self.spent:
            return False
        self.note(name, "out_of_time")
        return True

    def take_failures(self) -> dict[tuple[str, str], int]:
        """How often each (call, error) failed since the last time."""
        failures, self._failures = self._failures, Counter()
        return dict(failures)

    def ask(self, unsupported: set[object], call: Callable[..., _T], *arguments: Any, key: object = None) -> _T | None:
        """One call about a device; None where it is not supported or failed. Raises LostError, NvmlUnavailableError.

        `unsupported` is the device's, and remembers the call, or the `key` where the call has several meanings.
        """
        slot = key or call
        if slot in unsupported or self.too_late(call.__name__):
            return None
        try:
            return call(*arguments)
        except pynvml.NVMLError as error:
            self.failed_with(unsupported, call.__name__, error.value, slot)
        except pynvml.NVMLLibraryMismatchError:
            # How pynvml says that this library lacks the newest form of a function; it is no NVMLError.
            unsupported.add(slot)
        except UnicodeDecodeError:
            self.note(call.__name__, "not_text")
        except (IndexError, MemoryError, OverflowError, ValueError):
            # pynvml makes room for as many as it is told that there are, and takes that many out of it.
            self.note(call.__name__, "wrong_count")
        return None

    def read(self, call: Callable[..., _T], *arguments: Any) -> _T | None:
        """One call that is not about a device that is known; None where it failed. Raises NvmlUnavailableError."""
        try:
            return self.ask(set(), call, *arguments)
        except LostError:
            return None

    def failed_with(self, unsupported: set[object], name: str, code: int, slot: object) -> None:
        """What follows from an error of a call about a device. Raises LostError, NvmlUnavailableError."""
        if code in ABSENT:
            unsupported.add(slot)
        else:
            self.count(name, code)

    def count(self, name: str, code: int) -> None:
        """Count a failed call. Raises LostError, and NvmlUnavailableError where it is not this call's alone."""
        if code in _FATAL:
            raise unavailable(code)
        self.note(name, error_name(code))
        if code == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise LostError

    def note(self, name: str, error: str) -> None:
        """Count a failure that has no consequence."""
        self._failures[name, error] += 1


def error_name(code: int) -> str:
    """An nvmlReturn_t as a word for metrics."""
    name: str = _ERROR_NAMES.get(code, "unknown")
    return name


def unavailable(code: int) -> NvmlUnavailableError:
    """What to say when NVML as a whole answers with this error."""
    text = f"NVML cannot be used: {pynvml.NVMLError(code)}"
    if code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        if why := _why_not_loaded():
            return NvmlUnavailableError(
                "library_not_loadable",
                f"NVML cannot be used: {_LIBRARY} is there but cannot be loaded ({why}); install the NVIDIA driver's "
                "library again, or mount the one that fits this system",
            )
        text += "; libnvidia-ml.so.1 was not found, install the NVIDIA driver or mount its library"
    elif code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        text += "; the driver was upgraded: reload its module, or restart the container that mounts its old library"
    return NvmlUnavailableError(error_name(code), text)


def _why_not_loaded() -> str:
    """Return the loader's reason why the library cannot be loaded; "" where no such file is found."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError as error:
        text = str(error)
        # A library that another one needs may be missing, too: the loader then begins with that one's name.
        missing = text.startswith(f"{_LIBRARY}:") and os.strerror(errno.ENOENT) in text
        return "" if missing else text
    return ""


def ratio(percent: int | None) -> float | None:
    """A percentage as a ratio; None for what cannot be one."""
    return None if percent is None or not 0 <= percent <= 100 else percent / 100
