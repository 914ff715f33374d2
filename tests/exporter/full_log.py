"""A log that whoever collects it has stopped to read: each line waits for ever."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def full_log() -> Iterator[None]:
    """Lines of the exporter go into a pipe that nobody reads and that has no room left."""
    reader, writer = os.pipe()
    handler = logging.StreamHandler(os.fdopen(writer, "w"))
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    logger = logging.getLogger("dutycycle_exporter")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        os.close(reader)
        with suppress(BrokenPipeError):
            handler.stream.close()
