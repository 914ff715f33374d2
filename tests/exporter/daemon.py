"""The real exporter as a process, and what is read from it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tests.exporter.published import samples

_T = TypeVar("_T")
MAIN = (sys.executable, "-c", "from dutycycle_exporter.cli import main; main()")
PROGRAM = (sys.executable, str(Path(sys.executable).with_name("dutycycle-exporter")))
"""By its name, as people and services start it."""
PATIENCE = 120.0
"""Seconds to wait for what must happen: long enough for a machine that does much else."""


def eventually(condition: Callable[[], _T], what: str = "") -> _T:
    """The condition's first true value."""
    deadline = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"never happened: {what or condition}"
        time.sleep(0.05)


class Daemon:
    """`dutycycle-exporter` on a free port of the loopback interface. A context manager; stderr is in `log`.

    `port` is for those that are told not to log which one they listen on; `under` is a command that starts `program`.
    """

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str],
        *flags: str,
        port: int = 0,
        under: Sequence[str] = (),
        program: Sequence[str] = MAIN,
    ) -> None:
        self._log = directory / "exporter.log"
        command = [*under, *program]
        own = (f"--web.listen-address=127.0.0.1:{port}", f"--slurm.prolog-dir={directory / 'prolog'}")
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *own, *flags],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.port = port

    def __enter__(self) -> Self:
        try:
            self.port = eventually(self._listening, "the exporter listens")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self.process.kill()
        self.process.wait()

    def _listening(self) -> int | None:
        """The port, once it can be connected to."""
        assert self.process.poll() is None, self.log
        if self.port == 0:
            found = re.search(r"listening on \S+:(\d+)", self.log)
            return int(found[1]) if found else None
        with socket.socket() as client:
            return self.port if client.connect_ex(("127.0.0.1", self.port)) == 0 else None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def get(self, path: str, patience: float = PATIENCE) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=patience) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def values(self, name: str, *, patience: float = PATIENCE, **labels: str) -> list[float]:
        status, text = self.get("/metrics", patience)
        assert status == 200
        return [sample.value for sample in samples(text, name, **labels)]

    def total(self, name: str, **labels: str) -> float:
        return sum(self.values(name, **labels))

    def totals(self, *names: str) -> list[float]:
        """Totals of several metrics at one instant: they are of one page."""
        status, text = self.get("/metrics")
        assert status == 200
        return [sum(sample.value for sample in samples(text, name)) for name in names]

    def child(self) -> int | None:
        """The pid of the NVML child, None while there is none."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        tasks = [task / "children" for task in children.parent.parent.iterdir()]
        pids = [int(pid) for task in tasks for pid in _text(task).split()]
        return pids[0] if pids else None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    state = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return bool(state) and state[0] != "Z"


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
