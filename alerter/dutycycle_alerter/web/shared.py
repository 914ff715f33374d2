"""What one scrape has read of the store, for those who come just after it: scrapes cost the store what one costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from threading import Lock

from prometheus_client.core import Metric

_FRESH = 1.0
"""Wall seconds for which it is as good as new: no scraper comes more often."""


class Shared:
    """One read at a time of each kind, and at most one in a second. Thread-safe.

    Who comes while another reads waits for it, and has the same. What fails is not kept.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = Lock()
        self._read: dict[Hashable, tuple[float, Sequence[Metric]]] = {}

    def of(self, kind: Hashable, read: Callable[[], Sequence[Metric]]) -> Sequence[Metric]:
        """What `read` returns, or did a moment ago. Raises what it raises."""
        with self._lock:
            at, found = self._read.get(kind, (float("-inf"), ()))
            if self._monotonic() - at >= _FRESH:
                found = read()
                self._read[kind] = self._monotonic(), found
            return found
