"""What glibc's allocator has set aside for a process, seen from outside."""

from __future__ import annotations

import ctypes
import re
from itertools import pairwise

GLIBC = hasattr(ctypes.CDLL(None), "mallopt")

ARENA = 64 * 2**20
"""What glibc sets aside for each arena but the first, and on what it is aligned (HEAP_MAX_SIZE)."""
MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ 0 *$", re.MULTILINE)


def arenas(maps: str) -> list[int]:
    """Those beside the first that a process has, by its /proc/PID/maps: a part in use, and the rest of it set aside."""
    found = [(int(start, 16), int(end, 16), access) for start, end, access in MAPPING.findall(maps)]
    return [
        start
        for (start, end, access), (rest, last, kept) in pairwise(found)
        if start % ARENA == 0 and access == "rw-p" and (rest, last, kept) == (end, start + ARENA, "---p")
    ]
