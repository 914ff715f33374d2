"""Has glibc's allocator keep to one arena and give back what is free: a process of ours lives for months.

By itself glibc gives threads arenas of their own, up to eight for each processor, and passes, deliveries and requests
each run on other threads: what one leaves behind keeps its arena from shrinking. And the size from which memory comes
from the kernel, and goes back to it at once, rises to that of the largest piece that was freed, up to 32 MiB, so that
from then on answers and arrays lie in those arenas, too. One arena is enough: Python has one thread run at a time.
Where there is another C library nothing is done.
"""

from __future__ import annotations

import ctypes

# Of malloc.h.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8

_LARGE = 128 * 1024
"""glibc's own first values of both thresholds, in bytes; once they are set it no longer changes them."""


def settle() -> None:
    """To be called before threads are started: arenas that exist stay."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _LARGE)
        mallopt(_TRIM_THRESHOLD, _LARGE)
