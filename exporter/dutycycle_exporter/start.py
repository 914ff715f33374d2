"""Where `dutycycle-exporter` begins: SIGTERM ends it before the rest of it is even loaded."""

from __future__ import annotations

import os
import signal
import sys
from importlib.util import find_spec

_NEEDED = ("click", "h2", "pynvml", "yaml")
"""The modules of the extra `exporter`: an installation of another extra has this command, too."""


def main() -> None:
    """Entry point; as that of `cli`, which takes a second to load on a busy machine."""
    if os.getpid() == 1:
        # Of a container. What a first process has no handler for the kernel drops, where it would end any other.
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        sys.exit(f"dutycycle-exporter: {missing[0]} is missing: it was installed without the extra `exporter`")
    from dutycycle_exporter.cli import main as command  # noqa: PLC0415

    command()
