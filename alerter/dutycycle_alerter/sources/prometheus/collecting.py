"""Python's garbage collector, out of the way for the length of a pass."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """A pass makes millions of objects without a cycle among them; to look for one again and again takes as long as
    making them. What is not needed any more goes at once, as ever.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
