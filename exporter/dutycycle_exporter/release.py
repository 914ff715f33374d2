"""Finds the exporter that runs where this process does, from outside of it, and signals it."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from dutycycle_exporter.errors import ExporterError

_PROC = Path("/proc")
_NAME = "dutycycle-exporter"
_PROGRAM_WITHIN = 3
"""Arguments of a command line among which the program's name is: an interpreter and its flag may come before it."""


def release() -> int:
    """Have it let go of NVML, or take it up again; its pid. Raises ExporterError where there is not exactly one.

    Not process 1: where a container shares the host's pid namespace that is the host's init, and root may signal it.
    """
    found = [pid for pid in _pids() if pid != os.getpid() and _is_exporter(pid)]
    if len(found) != 1:
        raise ExporterError(
            f"{len(found) or 'no'} exporters run in this container or, outside of containers, in this mount namespace. "
            "Run this in the exporter's own container as its own user; of a systemd unit: "
            "systemctl kill --kill-whom=main -s USR1 dutycycle-exporter"
        )
    try:
        os.kill(found[0], signal.SIGUSR1)
    except OSError as error:
        raise ExporterError(f"process {found[0]} cannot be signalled: {error.strerror}") from error
    return found[0]


def _pids() -> list[int]:
    return sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal())


def _is_exporter(pid: int) -> bool:
    """Whether it is one that waits for the signal, in our own mount namespace, which no two containers share.

    What is called as it is and does not take the signal, a probe or one that begins just now, would be ended by it.
    """
    process = _PROC / str(pid)
    try:
        arguments = (process / "cmdline").read_bytes().split(b"\0")
        if not any(os.fsdecode(one).rpartition("/")[2] == _NAME for one in arguments[:_PROGRAM_WITHIN]):
            return False
        same = (process / "ns" / "mnt").stat() == (_PROC / "self" / "ns" / "mnt").stat()
        return same and _catches((process / "status").read_bytes(), signal.SIGUSR1)
    except OSError:
        # It has ended, or is another user's, whose we may not look at.
        return False


def _catches(status: bytes, number: int) -> bool:
    """Whether a process with this /proc/PID/status has a handler of its own for a signal. Its name is among it, which
    is any bytes that it likes.
    """
    caught = re.search(rb"^SigCgt:\t([0-9a-f]{1,32})$", status, re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)
