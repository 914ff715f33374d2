"""XIDs: the critical errors that the driver reports, as they happen.

Waiting for them blocks, so it has a thread of its own; a wait that never returns holds up nothing. What happened while
nobody was registered is lost: to NVML, events are not kept.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pynvml

from dutycycle_exporter.model import Xid
from dutycycle_exporter.nvml.calls import ABSENT, error_name
from dutycycle_exporter.nvml.devices import Device

_WAIT_MS = 200
"""How long one wait lasts at most: as long may it take to end the thread, and to register a new GPU."""

_PAUSE = 5.0
"""Seconds after a failure: a set with a lost GPU in it fails at once, again and again."""

_RETRY = 60.0
"""Seconds until a GPU that could not be registered is tried again."""

_MOST = 1024
"""XIDs that wait to be told; the oldest make room."""

_JOIN = 2.0


@dataclass(frozen=True, slots=True)
class _Event:
    uuid: str
    code: int
    t: float  # time.monotonic()


class XidWatch:
    """Collects XIDs. `watch` says of which GPUs, `take` what happened."""

    def __init__(self) -> None:
        self._events: deque[_Event] = deque(maxlen=_MOST)
        self._failures: deque[tuple[str, str]] = deque(maxlen=_MOST)
        self._wanted: dict[int, tuple[str, Any]] = {}
        self._known: dict[int, str] = {}
        """Whose each handle is that was ever registered, also of a GPU that is lost since: its XID may come later."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="xid", daemon=True)

    def watch(self, devices: Iterable[Device]) -> None:
        """Which GPUs there are now, by their handles."""
        self._wanted = {_address(device.handle): (device.uuid, device.handle) for device in devices}
        if self._thread.ident is None:
            self._thread.start()

    def take(self, now: float) -> tuple[Xid, ...]:
        """What happened since the last time, oldest first; `now` is the present, in Unix seconds."""
        present = time.monotonic()
        found = []
        while self._events:
            event = self._events.popleft()
            found.append(Xid(event.uuid, event.code, now - max(0.0, present - event.t)))
        return tuple(found)

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
        while not self._stop.is_set():
            try:
                self._one_set()
            except pynvml.NVMLError as error:
                if error.value in ABSENT:
                    # This library, or this driver, has no events at all.
                    return
            self._stop.wait(_PAUSE)

    def _one_set(self) -> None:
        """Wait with one set until something fails or the end. Raises NVMLError, which is counted already."""
        events = self._call(pynvml.nvmlEventSetCreate)
        registered: dict[int, str] = {}
        refused: dict[tuple[int, str], float] = {}
        try:
            while not self._stop.is_set():
                self._register(events, registered, refused)
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
                    uuid = self._known.get(_address(data.device)) or self._whose(data.device)
                    self._events.append(_Event(uuid, int(data.eventData), time.monotonic()))
        finally:
            self._call(pynvml.nvmlEventSetFree, events)

    def _register(self, events: Any, registered: dict[int, str], refused: dict[tuple[int, str], float]) -> None:
        """Register GPUs that are new, and forget those that are gone: they are registered again when they return."""
        wanted = self._wanted
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
                    refused[address, uuid] = float("inf")
                else:
                    refused[address, uuid] = time.monotonic() + _RETRY
                    self._failures.append(("nvmlDeviceRegisterEvents", error_name(error.value)))
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
