"""Signals, one after the other, in the order in which they came."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator


class Signals:
    """Takes the signals that it is told to from then on, so that they do not end the process. One per process, made in
    its main thread.

    By a pipe: the kernel may hand a signal to any thread, and one that waits for a lock is not woken by another's.
    """

    def __init__(self, *numbers: signal.Signals) -> None:
        self._read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end)
        self.take(*numbers)

    def take(self, *numbers: signal.Signals) -> None:
        """These, too."""
        for number in numbers:
            signal.signal(number, lambda *_: None)

    def __iter__(self) -> Iterator[int]:
        """Their numbers, for ever; those first that came before."""
        while True:
            yield os.read(self._read_end, 1)[0]
