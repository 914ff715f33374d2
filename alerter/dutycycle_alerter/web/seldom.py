"""Lines of the log that requests cause: some at once, then one a while, so that nobody fills a disk with them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

AT_ONCE = 1000
"""Lines that are let through at once."""
EVERY = 1.0
"""Seconds after which one more is."""


class Seldom(logging.Filter):
    """A logger's filter that bounds how many lines it lets through.

    It goes by a clock that nobody sets, and not by when a line says that it was made: where that goes back, there would
    be none for as long.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._free_at = 0.0

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - logging's interface
        """Whether the line may be written."""
        # Without a lock: of two lines at the same moment one may be counted alone.
        now = self._monotonic()
        free_at = max(now, self._free_at) + EVERY
        if free_at > now + AT_ONCE * EVERY:
            return False
        self._free_at = free_at
        return True
