"""Programs as jobs, with CPUs of their own: what slurmd and our prolog leave on a node, without a Slurm.

A cgroup under slurmstepd.scope with a limit of CPUs, and the prolog's file that says whose the GPU is. So the exporter
sees CPU use and pressure of the job, which no process group has. Needs root and cgroup v2; `possible` says why not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.fakes.slurm_prolog import PrologWriter

ROOT = Path(__file__).resolve().parents[2]
CGROUP = Path("/sys/fs/cgroup")
SCOPE = CGROUP / "system.slice" / "slurmstepd.scope"
PERIOD = 100_000
FIRST = 1001


class FailedError(Exception):
    """A program ended otherwise than it should: its exit code, and what it wrote."""


class Job:
    """A command that runs alone or beside others on one GPU. A context manager that leaves neither process nor cgroup.

    `prolog` is the exporter's directory; None where the process group is the job, as without a scheduler. `lines` are
    what the command wrote until now.
    """

    def __init__(
        self, number: int, command: Sequence[str], *, gpu: str, cpus: float, prolog: Path | None, log: Path
    ) -> None:
        self.number = number
        self.lines: list[dict[str, float]] = []
        self._command = list(command)
        self._gpu = gpu
        self._cpus = cpus
        self._prolog = None if prolog is None else PrologWriter(prolog)
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)

    @property
    def subject(self) -> str:
        """The workload's name for the exporter and in incidents; for a process group its beginning."""
        if self._prolog is not None:
            return f"slurm/{self.number}"
        assert self._process is not None
        return f"local/{self._process.pid}-"

    def __enter__(self) -> Self:
        command = self._command
        if self._prolog is not None:
            group = self._group()
            self._prolog.start(
                self.number, [self._gpu], uid=os.getuid(), shared=True, user="root", start=int(time.time())
            )
            command = ["/bin/sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', str(group), *command]
        # Its own process group, as a shell starts a job.
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                process_group=0,
            )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        if self._prolog is not None:
            self._prolog.end(self.number, [self._gpu], shared=True)
            self._directory.rmdir()

    def wait(self) -> None:
        """Until it ends by itself. Raises FailedError."""
        assert self._process is not None
        self._thread.join()
        if self._process.wait() != 0:
            said = self._log.read_text()
            raise FailedError(f"{' '.join(self._command)}: exit {self._process.returncode}\n{said}")
        if not self.lines:
            raise FailedError(f"{' '.join(self._command)}: it said nothing")

    def _follow(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(json.loads(line))

    @property
    def _directory(self) -> Path:
        return SCOPE / f"job_{self.number}"

    def _group(self) -> Path:
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / "cpu.max").write_text(f"{round(self._cpus * PERIOD)} {PERIOD}")
        return self._directory


def possible() -> str:
    """Why programs cannot be jobs here; empty where they can."""
    if os.getuid() != 0:
        return "only root makes cgroups"
    if not (CGROUP / "cgroup.controllers").exists():
        return "no cgroup v2 at /sys/fs/cgroup"
    try:
        SCOPE.mkdir(parents=True, exist_ok=True)
        for directory in (CGROUP, SCOPE.parent, SCOPE):
            control = directory / "cgroup.subtree_control"
            if "cpu" not in control.read_text().split():
                control.write_text("+cpu")
    except OSError as error:
        return f"no cgroup with a limit of CPUs: {error}"
    return ""


def workload(name: str, *arguments: str) -> list[str]:
    """The command of one of the programs here, by the Python that has torch."""
    python = os.environ.get("TORCH_PYTHON", sys.executable)
    return [python, "-m", "benchmarks.gpu.workloads", name, *arguments]
