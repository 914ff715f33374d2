"""Which GPUs NVML shows, and what never changes about each.

Keyed by UUID: an index may mean another GPU after a reset. Asking every GPU who it is takes as long as half of what is
read of it, so that is done only when there may be news: another count, a failure since, a GPU that is missing, and
now and then. One that takes too long is left alone meanwhile, and stays what it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pynvml

from dutycycle_exporter.model import GpuReading
from dutycycle_exporter.nvml.calls import Calls, LostError
from dutycycle_exporter.nvml.slow import SlowGpus
from dutycycle_exporter.nvml.suspects import Suspects

_REVIEW = 12
"""Turns after which all GPUs are asked who they are, whatever happened."""

_MOST = 1024
"""GPUs of a machine, and more than any has: what NVML says beyond that is no count, and asking for each has no end."""

_MIG_MODES = {pynvml.NVML_DEVICE_MIG_DISABLE: "disabled", pynvml.NVML_DEVICE_MIG_ENABLE: "enabled"}


@dataclass(slots=True, eq=False)
class Device:
    """A GPU's handle, what is known of it, and which calls it does not support."""

    handle: Any
    uuid: str
    index: int
    model: str = ""
    minor: int | None = None
    pci_bus_id: str = ""
    mig_mode: str = ""
    mode_due: bool = True
    """Whether to ask for the MIG mode at the next turn."""
    unsupported: set[object] = field(default_factory=set)

    @property
    def partitioned(self) -> bool:
        """Whether it is divided into MIG instances, or can be."""
        return self.mig_mode == "enabled"

    def unread(self) -> GpuReading:
        """Who it is, and nothing that was measured."""
        return GpuReading(
            uuid=self.uuid,
            index=self.index,
            model=self.model,
            minor=self.minor,
            pci_bus_id=self.pci_bus_id,
            mig_mode=self.mig_mode,
        )

    def identify(self, calls: Calls) -> None:
        """Ask for what never changes, as long as it is not known, and for the MIG mode where it is due. Raises
        LostError.

        What a GPU supports depends on its MIG mode: when that changes, all is asked for again.
        """
        if not self.model:
            self.model = calls.ask(self.unsupported, pynvml.nvmlDeviceGetName, self.handle) or ""
        if self.minor is None:
            self.minor = calls.ask(self.unsupported, pynvml.nvmlDeviceGetMinorNumber, self.handle)
        if not self.pci_bus_id:
            pci = calls.ask(self.unsupported, pynvml.nvmlDeviceGetPciInfo, self.handle)
            try:
                self.pci_bus_id = "" if pci is None else str(pci.busId).lower()
            except UnicodeDecodeError:
                # pynvml decodes it where it is looked at.
                calls.note(pynvml.nvmlDeviceGetPciInfo.__name__, "not_text")
        if self.mode_due:
            self._ask_mode(calls)

    def _ask_mode(self, calls: Calls) -> None:
        modes = calls.ask(self.unsupported, pynvml.nvmlDeviceGetMigMode, self.handle)
        self.mode_due = modes is None and pynvml.nvmlDeviceGetMigMode not in self.unsupported
        mode = self.mig_mode if modes is None else _MIG_MODES.get(modes[0], "")
        if mode != self.mig_mode:
            self.mig_mode = mode
            self.unsupported.clear()


class Devices:
    """Finds the GPUs. `shown` are those that can be read, in NVML's order."""

    def __init__(self, calls: Calls, slow: SlowGpus, suspects: Suspects) -> None:
        self.shown: list[Device] = []
        self.count: int | None = None
        """How many there are, also of those that do not answer; None where NVML does not tell."""
        self.visible: int | None = None
        """How many answer, also of those that did not say who they are, or take too long; None where `count` is."""
        self.asked: int | None = None
        """As `count`, without those that are left out."""
        self._calls = calls
        self._slow = slow
        self._suspects = suspects
        self._known: dict[str, Device] = {}
        self._before: dict[int, Device] = {}
        """What the GPUs were when all were asked who they are: by UUID, and by index."""
        self._left: list[int] = []
        """Those that are to be asked that after the others have been read."""
        self._enumerated: int | None = None
        self._turns = 0
        self._doubt = True

    def find(self) -> None:
        """Bring `shown` and the numbers up to date, but for those that are to be asked last. Raises
        NvmlUnavailableError.

        Where NVML does not tell how many there are, those that it showed last are asked.
        """
        self.count = self._calls.read(pynvml.nvmlDeviceGetCount)
        if self.count is not None and self.count > _MOST:
            self._calls.note("nvmlDeviceGetCount", "wrong_count")
            self.count = None
        self._suspects.begin(self.count)
        self._left = []
        if self.count is None:
            self.asked = self.visible = None
            self._doubt = True
            return
        if self.count != self._enumerated:
            self._slow.forget()
        self._turns += 1
        if self._doubt or self.count != self._enumerated or self._turns >= _REVIEW:
            self._enumerate(self.count)
            self._doubt |= self._suspects.waiting

    @property
    def there(self) -> list[Device]:
        """`shown`, and those that `find` has left, as far as they were known before."""
        return [*self.shown, *(self._before[index] for index in self._left if index in self._before)]

    def find_last(self) -> None:
        """Those that `find` has left to be asked last. Raises NvmlUnavailableError."""
        left, self._left = self._left, []
        self._ask(left)

    def lose(self, device: Device) -> None:
        """A GPU turned out to be lost while it was read: what is known of it is that it is missing from `visible`."""
        self.shown.remove(device)
        self.visible = None if self.visible is None else self.visible - 1
        self._doubt = True

    def doubt(self) -> None:
        """Something failed: a handle may mean nothing any more. All are asked who they are in the next turn."""
        self._doubt = True

    def _enumerate(self, count: int) -> None:
        self._known = {device.uuid: device for device in self.shown}
        self._before = {device.index: device for device in self.shown}
        self._enumerated, self._turns, self._doubt = count, 0, False
        there = [index for index in range(count) if not self._suspects.left_out(index)]
        self.shown, self.visible, self.asked = [], 0, len(there)
        self._left = [index for index in there if index in self._suspects.last]
        self._ask(index for index in there if index not in self._suspects.last)

    def _ask(self, indexes: Iterable[int]) -> None:
        """Ask them who they are."""
        found = {device.uuid: device for device in self.shown}
        for index in indexes:
            device, answers = self._identify(index)
            self.visible = (self.visible or 0) + answers
            if device is None:
                self._doubt = True
            else:
                found[device.uuid] = device
        self.shown = sorted(found.values(), key=lambda device: device.index)

    def _identify(self, index: int) -> tuple[Device | None, bool]:
        """The GPU of an index, None where it does not say which it is, and whether it answers. As long as there is no
        time to ask, the one that had the index still has it.
        """
        before = self._before.get(index)
        if not self._slow.admits(index, late=index in self._suspects.last):
            return before, before is not None
        # A suspect was not among those that NVML brought up in the first turn.
        anew = before is None and index in self._suspects.suspected
        with self._suspects.asking(index, anew=anew), self._slow.asking(index, anew=anew):
            handle = self._calls.read(pynvml.nvmlDeviceGetHandleByIndex, index)
            try:
                uuid = None if handle is None else self._calls.ask(set(), pynvml.nvmlDeviceGetUUID, handle)
            except LostError:
                return None, False
            if not uuid and self._calls.spent and before is not None:
                return before, True
        if not uuid:
            return None, handle is not None
        device = self._known.get(uuid) or Device(handle, uuid, index)
        device.handle, device.index, device.mode_due = handle, index, True
        return device, True
