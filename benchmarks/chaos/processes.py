"""A program of ours that is killed, paused and started again, and that ends with the harness."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.e2e.site import Process

from . import probes

_DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")


class Program(Process):
    """`wanted` tells whether it should run now; where it does not, it ended by itself."""

    def __init__(self, name: str, command: list[str], directory: Path, environment: dict[str, str]) -> None:
        super().__init__(name, [*_DIES_WITH_US, *command], directory, environment)
        self.wanted = False
        self.paused = False

    def begin(self) -> None:
        self.wanted = True
        self.start()

    def kill(self) -> None:
        """kill -9; it is not started again until somebody does."""
        self.wanted = self.paused = False
        super().kill()

    def pause(self) -> None:
        """SIGSTOP: it holds its connections, and does nothing."""
        self.paused = True
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        self.paused = False
        with suppress(ProcessLookupError, AssertionError):
            os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        self.wanted = False
        if self.paused:
            self.resume()
        super().stop()

    def ended_by_itself(self) -> bool:
        return self.wanted and not self.alive

    def in_force(self) -> bool:
        """Whether it was killed or paused, and is."""
        return probes.stopped(self.pid) if self.paused else not self.alive

    def children(self) -> list[int]:
        """Its child processes, of every thread of it."""
        found = []
        with suppress(OSError):
            for thread in Path(f"/proc/{self.pid}/task").iterdir():
                found += [int(pid) for pid in (thread / "children").read_text().split()]
        return found
