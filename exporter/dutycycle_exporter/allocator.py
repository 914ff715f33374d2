"""Has glibc's allocator keep to one arena and give back what is free: a process of ours lives for months.

By itself glibc gives threads arenas of their own, up to eight for each processor, and every request is answered on a
new thread: the pieces of a page that each of them leaves behind are scattered over all. And the size from which memory
comes from the kernel, and goes back to it at once, rises to that of the largest piece that was freed, so that from then
on pages and what compresses them lie in those arenas, too, which grow for days. One arena is enough: Python has one
thread run at a time. Where there is another C library nothing is done.
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
    """To be called before there is a second thread: arenas that exist stay."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _LARGE)
        mallopt(_TRIM_THRESHOLD, _LARGE)


def trim() -> None:
    """Give free pages back to the kernel, also those in the midst of others; takes about a millisecond."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
