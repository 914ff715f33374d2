"""Whether this process is in the pid namespace of the host's /proc: which processes NVML tells of depends on it."""

from __future__ import annotations

import os
from pathlib import Path


def apart(procfs: Path) -> bool:
    """Whether `procfs` is of another pid namespace than this process, which it then knows by another pid.

    Newer drivers show a process only to those in its pid namespace or one above it: in a namespace of its own an
    exporter is shown none, however many there are. Older ones show all of them, by their pids on the host.
    """
    try:
        return str((procfs / "self").readlink()) != str(os.getpid())
    except OSError:
        return False
