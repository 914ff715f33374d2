"""The state file: maps it, publishes whole blocks into it, and sets and reads the controls of single functions."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from pathlib import Path

from . import layout
from .compiler import Libraries, load_publisher

EVERY_GPU = -1
"""As a slot of a control: the functions that are about no GPU, and the behaviour that is forced upon all of them."""

# Functions that share a control with another one, beside versions of the same name.
_SAME_AS = {
    "nvmlInitWithFlags": "nvmlInit",
    "nvmlDeviceGetTemperatureV": "nvmlDeviceGetTemperature",
    "nvmlDeviceGetCurrentClocksThrottleReasons": "nvmlDeviceGetCurrentClocksEventReasons",
}


def function_index(name: str) -> int:
    """The control of a function by any of its names, with or without version; "ANY" for all of them."""
    plain = re.sub(r"_v\d+$", "", name)
    plain = _SAME_AS.get(plain, plain)
    try:
        return layout.FUNCTIONS.index(plain)
    except ValueError:
        raise ValueError(f"the double has no function {name}") from None


class StateFile:
    """One state file, created anew. One process drives it; any number may map it through the library."""

    def __init__(self, path: Path, libraries: Libraries) -> None:
        self.path = path
        self._publish = load_publisher(libraries)
        size = ctypes.sizeof(layout.State)
        # Made aside and renamed: a program that starts meanwhile finds no state, or a whole one.
        aside = path.with_name(path.name + ".new")
        with aside.open("w+b") as file:
            os.truncate(file.fileno(), size)
            self._map = mmap.mmap(file.fileno(), size)
        self._state = layout.State.from_buffer(self._map)
        self._state.size = size
        self._state.magic = layout.STATE_MAGIC
        aside.replace(path)

    def close(self) -> None:
        """Unmaps the file and leaves it where it is: programs that have mapped it go on with its last content."""
        del self._state
        self._map.close()

    def publish_system(self, system: layout.System) -> None:
        self._write(self._state.system, system, ctypes.sizeof(layout.System))

    def publish_events(self, log: layout.EventLog) -> None:
        """Publishes the log of events; one thread at a time."""
        self._write(self._state.events, log, ctypes.sizeof(layout.EventLog))

    def publish_device(self, slot: int, device: layout.Device) -> None:
        """Publishes a device; one thread at a time."""
        size = layout.Device.processes.offset + device.process_count * ctypes.sizeof(layout.Process)
        self._write(self._state.devices[slot], device, size)

    def _write(self, to: ctypes.Structure, source: ctypes.Structure, size: int) -> None:
        # The first member of a block is its sequence number, which only `publish` writes.
        skip = ctypes.sizeof(ctypes.c_uint64)
        target = ctypes.addressof(to)
        self._publish(target, target + skip, ctypes.addressof(source) + skip, size - skip)

    def _control(self, function: str, slot: int) -> layout.Control:
        control: layout.Control = self._state.controls[slot + 1][function_index(function)]
        return control

    def fail(self, function: str, result: int, slot: int = EVERY_GPU, times: int = -1) -> None:
        """Makes a function answer `result` (an nvmlReturn_t), for ever or for its next `times` calls."""
        control = self._control(function, slot)
        control.remaining = times
        control.result = result

    def slow(self, function: str, seconds: float, slot: int = EVERY_GPU) -> None:
        """Makes every call of a function take that long, below one second, until `heal`."""
        if not 0 <= seconds < 1:
            raise ValueError(f"a call cannot be slowed by {seconds} s; `hang` blocks for longer")
        self._control(function, slot).delay_us = round(seconds * 1e6)

    def heal(self, function: str, slot: int = EVERY_GPU) -> None:
        """Ends what `fail`, `hang` and `slow` began with the same function and slot."""
        control = self._control(function, slot)
        control.result = 0
        control.delay_us = 0
        control.hang = 0

    def hang(self, function: str, slot: int = EVERY_GPU) -> None:
        """Makes every call of a function block until `heal`, or until its process is killed."""
        self._control(function, slot).hang = 1

    def hung(self, function: str) -> int:
        """How many calls of a function have begun to block, on any GPU."""
        index = function_index(function)
        return sum(row[index].hung for row in self._state.controls)

    def calls(self, function: str, slot: int | None = None) -> int:
        """How often a function was called by any process, whatever it answered; on one GPU, or on all."""
        index = function_index(function)
        if slot is not None:
            return int(self._state.controls[slot + 1][index].calls)
        return sum(row[index].calls for row in self._state.controls)

    def called(self) -> dict[str, int]:
        """Calls by function, without those never called."""
        return {name: count for name in layout.FUNCTIONS if (count := self.calls(name))}
