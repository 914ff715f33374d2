"""An end for what waits on others, wherever it waits: a name, a connection, an answer that comes a byte at a time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class _OverError(BaseException):
    """No library between here and there takes it for an error of its own."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises TimeoutError in what takes longer. Uses the process's alarm: for a command, in its main thread."""
    armed = True

    def ring(*_: object) -> None:
        if armed:
            raise _OverError

    before = signal.signal(signal.SIGALRM, ring)
    left = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        try:
            yield
        finally:
            armed = False
    except _OverError:
        raise TimeoutError(f"not done within {seconds:g} seconds") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *left)
