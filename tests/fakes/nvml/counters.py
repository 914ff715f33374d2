"""Counters that only rise: profiling activity of a GPU or an instance, and traffic on PCIe and NVLink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from . import layout
from .layout import TRAFFIC, GpmCounters
from .timeline import Run

Share = tuple[Run, float, float]
"""A run, the busy seconds it had, and the part of the counted GPU or instance that it ran on."""

_WHILE_BUSY = {"pcie_tx": 5e8, "pcie_rx": 2e9, "nvlink_tx": 2e7 * 1024, "nvlink_rx": 2e7 * 1024}
"""Bytes per busy second where a test says nothing else."""


class Profile:
    """Profiling counters, kept as floats: rounding never adds up."""

    def __init__(self, start_us: int) -> None:
        self.excess = 1.0
        """Factor by which the hardware counts too much, as real counters have been seen to."""

        self._start_us = self._now_us = start_us
        self._active = [0.0] * len(layout.GPM_ACTIVITIES)

    def advance(self, shares: Iterable[Share], now_us: int) -> None:
        for run, busy, part in shares:
            counted = busy * part * self.excess * 1e9
            self._active = [
                before + counted * factor for before, factor in zip(self._active, run.load.activities, strict=True)
            ]
        self._now_us = now_us

    def write(self, block: GpmCounters, traffic: Iterable[int]) -> None:
        block.time_us = self._now_us
        block.elapsed_ns = (self._now_us - self._start_us) * 1000
        block.active_ns[:] = [round(active) for active in self._active]
        block.traffic_bytes[:] = list(traffic)


class Traffic:
    """Bytes in four directions, by TRAFFIC."""

    def __init__(self, *, nvlink: bool) -> None:
        self._nvlink = nvlink
        self._rates: dict[str, float] = {}
        self._bytes = dict.fromkeys(TRAFFIC, 0.0)

    def set_rates(self, rates: Mapping[str, float | None]) -> None:
        """Bytes per second from now on, whatever runs; None: as much as the busy time suggests."""
        for name, rate in rates.items():
            if rate is None:
                self._rates.pop(name, None)
            else:
                self._rates[name] = rate

    def advance(self, seconds: float, busy: float) -> None:
        for name in TRAFFIC:
            rate = self._rates.get(name)
            self._bytes[name] += _WHILE_BUSY[name] * busy if rate is None else rate * seconds

    def bytes(self, name: str) -> int:
        """Bytes so far; NOT_AVAILABLE_U64 where there is no such link."""
        if name.startswith("nvlink") and not self._nvlink:
            return layout.NOT_AVAILABLE_U64
        return round(self._bytes[name])

    def write(self, telemetry: layout.Telemetry) -> None:
        telemetry.pcie_tx_bytes = self.bytes("pcie_tx")
        telemetry.pcie_rx_bytes = self.bytes("pcie_rx")
        if self._nvlink:
            telemetry.nvlink_tx_kib = self.bytes("nvlink_tx") // 1024
            telemetry.nvlink_rx_kib = self.bytes("nvlink_rx") // 1024
