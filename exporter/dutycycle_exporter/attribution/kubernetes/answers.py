"""What the kubelet and the API server last said, and when."""

from __future__ import annotations

from dataclasses import dataclass, field

from .records import PodRecord

Name = tuple[str, str]
"""Namespace and name: of one pod at a time."""


@dataclass(slots=True)
class Answers:
    """When the kubelet was asked that last listed pods, and when what the API server last answered was asked for."""

    listed: float | None = None
    recorded: float | None = None
    records: dict[str, PodRecord] = field(default_factory=dict)
    by_name: dict[Name, PodRecord] = field(default_factory=dict)

    def asked_before(self, at: float) -> bool:
        """Whether the API server's answer, if there is any, is to what was asked before then."""
        return self.recorded is None or self.recorded <= at

    def silence(self, now: float) -> float:
        """Seconds since either answered; infinity before."""
        return now - max((at for at in (self.listed, self.recorded) if at is not None), default=float("-inf"))
