"""Scenario time and wall time: one runs `time_scale` times as fast as the other, from an origin on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """`origin` is the wall time (Unix seconds) at which the scenario begins."""

    origin: float
    time_scale: float

    def wall(self, scenario: float) -> float:
        """The Unix time of an instant of the scenario."""
        return self.origin + scenario / self.time_scale

    def scenario(self, wall: float) -> float:
        """Seconds of the scenario at a Unix time; negative before its beginning."""
        return (wall - self.origin) * self.time_scale
