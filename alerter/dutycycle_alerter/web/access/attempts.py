"""How often somebody may fail to log in: some times at once, then one time a while."""

from __future__ import annotations

import math
import threading

AT_ONCE = 10
"""Failures that are free."""
EVERY = 30.0
"""Seconds after which one more is."""
_MOST = 10_000


class Attempts:
    """Counts failures by client, in bounded memory. Safe to use from several threads.

    `now` is seconds of a clock that nobody sets: one that goes back would keep everybody waiting for as long.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free_at: dict[str, float] = {}

    def wait(self, client: str, *, now: float) -> int:
        """Whole seconds for which the client has to wait; 0 where it need not."""
        with self._lock:
            ahead = self._free_at.get(client, now) - now - (AT_ONCE - 1) * EVERY
        return max(0, math.ceil(ahead))

    def failed(self, client: str, *, now: float) -> None:
        """One more failure of the client."""
        with self._lock:
            self._free_at[client] = max(now, self._free_at.pop(client, now)) + EVERY
            if len(self._free_at) > _MOST:
                # The one that failed longest ago.
                del self._free_at[next(iter(self._free_at))]
