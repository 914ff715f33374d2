"""Waits for what happens on other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until it holds; the test's own time-out is the limit."""
    pause = threading.Event()
    while not condition():
        pause.wait(0.02)
