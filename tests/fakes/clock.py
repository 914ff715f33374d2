"""A clock that stands still until a test moves it."""

from __future__ import annotations


class FakeClock:
    """Seconds since the epoch."""

    def __init__(self, now: float = 1_750_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> float:
        self.now += seconds
        return self.now
