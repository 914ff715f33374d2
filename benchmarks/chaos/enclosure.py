"""What a run mounts and starts is gone with it, however it ends, kill -9 included.

Mounts are made in a mount namespace of its own, which ends with the last process in it. A warden waits until the run is
over, and ends whatever is left in there: nobody else's processes are.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_CLONE_NEWNS = 0x00020000
_PATIENCE = 10.0
"""Seconds for which the warden looks whether there are more of them."""
_open_ends: list[int] = []
"""Of pipes to wardens: the kernel closes them."""


def enclose() -> None:
    """From now on this process and its children have mounts of their own, and a warden. Raises OSError where that is
    not allowed. To be called before there are threads.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        number = ctypes.get_errno()
        raise OSError(number, f"no mount namespace: {os.strerror(number)}")
    mark = tempfile.mkdtemp(prefix="chaos-own-")
    for command in (["--make-rprivate", "/"], ["-t", "tmpfs", "-o", "size=4k", "chaos", mark]):
        subprocess.run(["mount", *command], check=True, capture_output=True, timeout=30)
    its, mine = os.pipe()
    _open_ends.append(mine)
    command = [sys.executable, "-m", __name__, str(its), mark]
    subprocess.Popen(command, pass_fds=(its,), start_new_session=True, stdin=subprocess.DEVNULL)
    os.close(its)


def left(mark: str) -> Iterator[int]:
    """The other processes in whose namespace `mark` is mounted; none where it is everybody's."""
    if _mounted(mark, "1"):
        return
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()) and _mounted(mark, entry.name):
            yield int(entry.name)


def _mounted(mark: str, pid: str) -> bool:
    with suppress(OSError):
        # The namespace itself is shown of one's own user's processes only, unless one may trace all.
        return f" {mark} " in Path(f"/proc/{pid}/mounts").read_text(errors="replace")
    return False


def watch(end: int, mark: str) -> None:
    """Wait until nobody has the other end of this pipe, and end all that is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(end, 1):
        pass
    deadline = time.monotonic() + _PATIENCE
    while (found := list(left(mark))) and time.monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    subprocess.run(["umount", "-l", mark], capture_output=True, timeout=30, check=False)
    with suppress(OSError):
        Path(mark).rmdir()


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.argv[2])
