"""A clock that nobody sets."""

from __future__ import annotations

import time

_SINCE_BOOT: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """Seconds since an instant that stays the same; those for which the machine was suspended count, where it tells."""
    return time.clock_gettime(_SINCE_BOOT)
