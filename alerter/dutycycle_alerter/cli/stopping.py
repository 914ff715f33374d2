"""Being asked to stop: SIGTERM and Ctrl-C, however many of them."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

_ASKS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Whether it is time to stop, once somebody asked. For the main thread.

    By a pipe: an event's lock cannot be taken twice, and a signal may come while the handler of the one before, or the
    waiting itself, holds it. Nor does a signal that the kernel hands to another thread wake who waits for a lock.
    """

    def __init__(self, read_end: int) -> None:
        self._read_end = read_end
        self._asked = False

    def wait(self, timeout: float | None = None) -> bool:
        """Until it is, or for so many seconds; whether it is."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._asked:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self._read_end], [], [], left)[0]:
                return False
            self._asked = any(number in _ASKS for number in os.read(self._read_end, 512))
        return True


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """What SIGTERM and SIGINT do while inside: nothing but to ask."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    wakeup = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda *_: None) for number in _ASKS}
    try:
        yield Stop(read_end)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(write_end)
        os.close(read_end)
