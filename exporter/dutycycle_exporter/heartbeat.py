"""Tells whether a thread still goes round its loop: one that has ended, or waits for what never comes, says nothing."""

from __future__ import annotations

import time
from collections.abc import Callable


class Heartbeat:
    """One thread beats, any thread looks. By the monotonic clock: while a machine sleeps nothing stands still."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at = clock()

    def beat(self) -> None:
        """The thread goes on."""
        self._at = self._clock()

    @property
    def age(self) -> float:
        """Seconds since it did."""
        return self._clock() - self._at
