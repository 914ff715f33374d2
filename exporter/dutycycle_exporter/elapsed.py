"""Time that passes whatever clocks are set to: by it a step of the time of day is told from time that passed."""

from __future__ import annotations

import time

_SINCE_BOOT: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """Seconds since an instant that stays the same in all processes of a machine; those for which it was suspended
    count, where it tells.
    """
    return time.clock_gettime(_SINCE_BOOT)
