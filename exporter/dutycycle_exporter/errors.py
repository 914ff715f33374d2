"""The exporter's errors: one base, caught in one place per loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dutycycle_exporter.model import Snapshot


class ExporterError(Exception):
    """Anything the exporter reports to a person: the message names the thing, what is wrong and the remedy."""


class NvmlUnavailableError(ExporterError):
    """NVML as a whole cannot be used. `reason` is a fixed word for metrics, `last` what the turn in which that turned
    out had found already; None for nothing.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.last: Snapshot | None = None


class BusyError(ExporterError):
    """A request is refused so that there is room for others."""


class ReplayError(ExporterError):
    """The recording cannot be played."""


class ConfigError(ExporterError):
    """A configuration file cannot be used."""
