"""Where `dutycycle-exporter` begins: SIGTERM ends it before the rest of it is even loaded."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Entry point; as that of `cli`, which takes a second to load on a busy machine."""
    if os.getpid() == 1:
        # Of a container. What a first process has no handler for the kernel drops, where it would end any other.
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    from dutycycle_exporter.cli import main as command  # noqa: PLC0415

    command()
