"""Lines of the log that requests cause: some at once, then one a while, so that nobody fills a disk with them."""

from __future__ import annotations

import logging

AT_ONCE = 1000
"""Lines that are let through at once."""
EVERY = 1.0
"""Seconds after which one more is."""


class Seldom(logging.Filter):
    """A logger's filter that bounds how many lines it lets through."""

    def __init__(self) -> None:
        super().__init__()
        self._free_at = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line may be written."""
        # Without a lock: of two lines at the same moment one may be counted alone.
        free_at = max(record.created, self._free_at) + EVERY
        if free_at > record.created + AT_ONCE * EVERY:
            return False
        self._free_at = free_at
        return True
