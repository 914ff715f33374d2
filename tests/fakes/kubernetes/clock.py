"""The server's time: the machine's, quickened if wanted, or one that a test moves on by hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Clock:
    """The machine's time. With `pace` 0.1 what the API calls ten seconds takes one: timeouts, bookmarks, waits."""

    def __init__(self, pace: float = 1.0) -> None:
        self._pace = pace

    def now(self) -> float:
        """Seconds of the API since some moment."""
        return time.monotonic() / self._pace

    def wait(self, condition: threading.Condition, until: float | None) -> None:
        """Until somebody notifies or the time has come. The condition's lock is held."""
        condition.wait(None if until is None else max(0.0, until - self.now()) * self._pace)

    def attach(self, wake: Callable[[], None]) -> None:
        """Whom to wake when the time is moved on; the machine's moves by itself."""


class ManualClock(Clock):
    """Stands still until `advance`: what is due by then is done, in order, however busy the machine is."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._wakes: list[Callable[[], None]] = []

    def now(self) -> float:
        return self._now

    def wait(self, condition: threading.Condition, until: float | None) -> None:
        if until is None or until > self._now:
            condition.wait()

    def attach(self, wake: Callable[[], None]) -> None:
        self._wakes.append(wake)

    def advance(self, seconds: float) -> None:
        self._now += seconds
        for wake in self._wakes:
            wake()
