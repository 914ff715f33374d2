"""A /proc tree: what a monitor on the host reads about processes, without there being any."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class FakeProcess:
    """One process. Its group and session are its own unless they are given."""

    pid: int
    start: float
    """Seconds since the epoch."""

    cgroup: str = "/"
    cmdline: Sequence[str] = ("python", "train.py")
    comm: str = "python"
    uid: int = 0
    ppid: int = 1
    pgid: int | None = None
    session: int | None = None
    environ: Mapping[str, str] = field(default_factory=dict)


class ProcTree:
    """Builds the tree under `root`. A process appears and disappears whole."""

    def __init__(self, root: Path, boot_time: int = 1_700_000_000) -> None:
        self.root = root
        self.boot_time = boot_time
        root.mkdir(parents=True)
        (root / "stat").write_text(f"cpu  0 0 0 0 0 0 0 0 0 0\nctxt 0\nbtime {boot_time}\nprocesses 0\n")

    def add(self, process: FakeProcess) -> None:
        aside = self.root / f".{process.pid}.new"
        aside.mkdir()
        (aside / "stat").write_text(self._stat(process))
        (aside / "status").write_text(_status(process))
        (aside / "comm").write_text(process.comm[:15] + "\n")
        (aside / "cmdline").write_bytes(b"".join(os.fsencode(word) + b"\0" for word in process.cmdline))
        (aside / "environ").write_bytes(b"".join(f"{k}={v}\0".encode() for k, v in process.environ.items()))
        (aside / "cgroup").write_text(f"0::{process.cgroup}\n")
        if os.geteuid() == 0:
            os.chown(aside, process.uid, process.uid)
        aside.rename(self.root / str(process.pid))

    def remove(self, pid: int) -> None:
        aside = self.root / f".{pid}.old"
        (self.root / str(pid)).rename(aside)
        shutil.rmtree(aside)

    def _stat(self, process: FakeProcess) -> str:
        pgid = process.pid if process.pgid is None else process.pgid
        session = process.pid if process.session is None else process.session
        start_ticks = round((process.start - self.boot_time) * CLOCK_TICKS)
        # Fields 4 to 8, 9 to 21 (times and priorities), 22 (start), and the thirty that follow.
        numbers = [process.ppid, pgid, session, 0, -1, *[0] * 13, start_ticks, *[0] * 30]
        return f"{process.pid} ({process.comm[:15]}) S {' '.join(map(str, numbers))}\n"


def _status(process: FakeProcess) -> str:
    uid = "\t".join([str(process.uid)] * 4)
    return (
        f"Name:\t{process.comm[:15]}\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t{process.pid}\nNgid:\t0\n"
        f"Pid:\t{process.pid}\nPPid:\t{process.ppid}\nTracerPid:\t0\nUid:\t{uid}\nGid:\t{uid}\n"
    )
