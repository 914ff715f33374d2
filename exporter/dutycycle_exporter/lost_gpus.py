"""Which GPUs are lost: what the log says of them, and how often a fresh child looks for them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from dutycycle_exporter.model import GpuReading, Snapshot

log = logging.getLogger(__name__)

_SECOND_AGE = 600.0
"""Seconds (before `time_scale`) after which the second child that looked in vain is replaced. It is twice the first
child's, `nvml.lost.FIRST_AGE`, which only children import.
"""
_LONGEST_AGE = 3600.0


@dataclass(slots=True)
class LostGpus:
    """Logs each GPU that NVML stops to show, and when it is back. A GPU is lost where two snapshots in a row lack it:
    while a driver is loaded, GPUs come one by one.
    """

    _known: dict[str, GpuReading] = field(default_factory=dict)
    _missing: set[str] = field(default_factory=set)
    _lost: set[str] = field(default_factory=set)

    def watch(self, snapshot: Snapshot) -> None:
        """Take a snapshot. One that does not name every visible GPU shows nothing about the others."""
        shown = {gpu.uuid: gpu for gpu in snapshot.gpus if not gpu.mig}
        self._known |= shown
        if snapshot.visible is None or len(shown) < snapshot.visible:
            return
        missing = self._known.keys() - shown.keys()
        for uuid in sorted(missing & self._missing - self._lost):
            log.error("%s is lost: NVML does not show it any more", _named(self._known[uuid]))
        for uuid in sorted(self._lost - missing):
            log.warning("%s is back", _named(self._known[uuid]))
        self._lost = missing & (self._missing | self._lost)
        self._missing = set(missing)


def _named(gpu: GpuReading) -> str:
    return f"GPU {gpu.index} ({gpu.uuid}, PCI {gpu.pci_bus_id or 'address unknown'})"


@dataclass(slots=True)
class LookingForLost:
    """How long the next child waits before it gives way to another that looks for missing GPUs: twice as long each
    time that this did not change which GPUs are there.
    """

    _shown: frozenset[str] = frozenset()
    _gave_way: frozenset[str] | None = None
    _age: float | None = None

    def shown(self, snapshot: Snapshot) -> None:
        """Take a child's snapshot."""
        self._shown = frozenset(gpu.uuid for gpu in snapshot.gpus if not gpu.mig)

    def gave_way(self) -> None:
        """A child has ended because GPUs are missing."""
        if self._gave_way != self._shown:
            self._age = None
        else:
            self._age = _SECOND_AGE if self._age is None else min(2 * self._age, _LONGEST_AGE)
        self._gave_way = self._shown

    def arguments(self) -> list[str]:
        """Return the arguments of the next child."""
        return [] if self._age is None else [f"--missing-age={self._age:g}"]
