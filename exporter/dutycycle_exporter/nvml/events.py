"""XIDs: the critical errors that the driver reports, as they happen.

Waiting for them blocks, so it has a thread of its own; a wait that never returns holds up nothing. The thread tells of
each by itself and at once: the next call on the GPU that reported it may never return, and what waited for the end of
that would go with this process. What happened while nobody was registered is lost: to NVML, events are not kept.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import pynvml

from dutycycle_exporter.model import Xid
from dutycycle_exporter.nvml.calls import ABSENT, error_name
from dutycycle_exporter.nvml.devices import Device
from dutycycle_exporter.pipe import PipeClosedError

_WAIT_MS = 1000
"""How long one wait lasts at most: as long may it take to end the thread, and to register a new GPU."""

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
"""Seconds between two sets that fail one right after the other, doubled at each. The first failure costs none: who is
not registered misses what happens to the other GPUs, too.
"""

_RETRY = 60.0
"""Seconds until a GPU that could not be registered is tried again."""

_ABSENT_RETRY = 3600.0
"""Seconds until one that has no events, or a library without them, is asked again: either may have been exchanged."""

_MOST_FAILURES = 1024
_JOIN = 2.0


class XidWatch:
    """Tells `on_xid` of XIDs, on its thread, with the time that `clock` says. `watch` says of which GPUs."""

    def __init__(
        self, on_xid: Callable[[Xid], None], *, clock: Callable[[], float] = time.time, time_scale: float = 1.0
    ) -> None:
        self._on_xid = on_xid
        self._clock = clock
        self._absent_retry = _ABSENT_RETRY / time_scale
        self._failures: deque[tuple[str, str]] = deque(maxlen=_MOST_FAILURES)
        self._wanted: dict[int, tuple[str, Any]] = {}
        self._known: dict[int, str] = {}
        """Whose each handle is that was ever registered, also of a GPU that is lost since: its XID may come later."""
        self._refused: dict[tuple[int, str], float] = {}
        """Until when (time.monotonic()) each GPU is not tried that could not be registered."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="xid", daemon=True)

    def watch(self, devices: Iterable[Device]) -> None:
        """Which GPUs there are now, by their handles."""
        self._wanted = {_address(device.handle): (device.uuid, device.handle) for device in devices}
        if self._thread.ident is None:
            self._thread.start()

    def take_failures(self) -> list[tuple[str, str]]:
        """(call, error) of each failure since the last time."""
        found = []
        while self._failures:
            found.append(self._failures.popleft())
        return found

    def close(self) -> bool:
        """End the thread; whether it ended. A wait that hangs does not let it."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_JOIN)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self._one_set()
            except PipeClosedError:
                # Nobody is left to be told.
                return
            except pynvml.NVMLError as error:
                if error.value in ABSENT:
                    # This library, or this driver, has no events at all.
                    pause = self._absent_retry
                elif time.monotonic() - began > _LONGEST_PAUSE:
                    pause = 0.0
                else:
                    pause = min(2 * pause or _FIRST_PAUSE, _LONGEST_PAUSE)
            self._stop.wait(pause)

    def _one_set(self) -> None:
        """Wait with one set until something fails or the end. Raises NVMLError, which is counted already, and what
        `on_xid` raises.
        """
        events = self._call(pynvml.nvmlEventSetCreate)
        registered: dict[int, str] = {}
        try:
            while not self._stop.is_set():
                self._register(events, registered)
                if not registered:
                    self._stop.wait(_WAIT_MS / 1e3)
                    continue
                try:
                    data = pynvml.nvmlEventSetWait_v2(events, _WAIT_MS)
                except pynvml.NVMLError as error:
                    if error.value == pynvml.NVML_ERROR_TIMEOUT:
                        continue
                    self._failures.append(("nvmlEventSetWait", error_name(error.value)))
                    raise
                if data.eventType == pynvml.nvmlEventTypeXidCriticalError:
                    at = self._clock()
                    uuid = self._known.get(_address(data.device)) or self._whose(data.device)
                    self._on_xid(Xid(uuid, int(data.eventData), at))
        finally:
            self._call(pynvml.nvmlEventSetFree, events)

    def _register(self, events: Any, registered: dict[int, str]) -> None:
        """Register GPUs that are new, and forget those that are gone: they are registered again when they return.

        Raises NVMLError where the set is not to be used any more.
        """
        wanted, refused = self._wanted, self._refused
        for address in registered.keys() - wanted.keys():
            del registered[address]
        for address, uuid in [refusal for refusal in refused if refusal[0] not in wanted]:
            del refused[address, uuid]
        for address, (uuid, handle) in wanted.items():
            if registered.get(address) == uuid or time.monotonic() < refused.get((address, uuid), 0.0):
                continue
            try:
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
            except pynvml.NVMLError as error:
                if error.value in ABSENT:
                    refused[address, uuid] = time.monotonic() + self._absent_retry
                else:
                    refused[address, uuid] = time.monotonic() + _RETRY
                    self._failures.append(("nvmlDeviceRegisterEvents", error_name(error.value)))
                if error.value == pynvml.NVML_ERROR_UNKNOWN:
                    # By nvml.h it is in an undefined state then: the others may not be heard of.
                    raise
            else:
                registered[address] = self._known[address] = uuid

    def _whose(self, handle: Any) -> str:
        """The GPU's UUID, where an event has another handle than the one that was registered: a MIG instance's. Empty
        where it does not answer: the XID counts all the same.
        """
        try:
            uuid = str(self._call(pynvml.nvmlDeviceGetUUID, handle))
            if not uuid.startswith("MIG-"):
                return uuid
            handle = self._call(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle)
            return self._known.get(_address(handle)) or str(self._call(pynvml.nvmlDeviceGetUUID, handle))
        except pynvml.NVMLError:
            return ""

    def _call(self, call: Any, *arguments: Any) -> Any:
        """One call about no device. Raises NVMLError, and counts it."""
        try:
            return call(*arguments)
        except pynvml.NVMLError as error:
            if error.value not in ABSENT:
                self._failures.append((call.__name__, error_name(error.value)))
            raise
        except UnicodeDecodeError:
            self._failures.append((call.__name__, "not_text"))
            return ""


def _address(handle: Any) -> int:
    """What makes two handles the same."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
