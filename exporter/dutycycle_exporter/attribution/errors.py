"""The one error of attribution: something that was to tell an owner cannot be used, and why."""

from __future__ import annotations

from dutycycle_exporter.errors import ExporterError


class UnusableError(ExporterError):
    """A file or a process that tells nothing. `reason` is a fixed word, for a metric's label."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
