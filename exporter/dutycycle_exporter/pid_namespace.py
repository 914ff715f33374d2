"""Whether this process is in the host's pid namespace: which processes NVML tells of depends on it."""

from __future__ import annotations

import os
from pathlib import Path


def apart(procfs: Path) -> bool:
    """Whether this process is not in the pid namespace of the machine: it is the first one of its own, where a machine
    has its init, or `procfs` is of another namespace and knows it by another pid.

    Newer drivers show a process only to those in its pid namespace or one above it: in a namespace of its own an
    exporter is shown none, however many there are. Older ones show all of them, by their pids on the host.
    """
    if os.getpid() == 1:
        return True
    try:
        return str((procfs / "self").readlink()) != str(os.getpid())
    except OSError:
        return False
