"""A site of many programs is taken down however its run ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
"""As shells say it of what SIGINT has ended."""


@contextmanager
def interruptible() -> Iterator[None]:
    """The first SIGINT or SIGTERM ends what is done within, by KeyboardInterrupt, also where a shell that started it in
    the background had SIGINT ignored. More of them do not disturb how it leaves: a site that nobody takes down has
    processes, mounts and control groups.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        os.write(2, b"interrupted: the site is being taken down\n")
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_until_interrupted(program: Callable[[], int | None]) -> int:
    """The exit status of a whole program. What it started is gone when it returns."""
    try:
        with interruptible():
            return program() or 0
    except KeyboardInterrupt:
        return INTERRUPTED
