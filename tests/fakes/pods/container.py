"""One container: its process in its namespaces, from start to end; where it is traced, what it asked of files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import enter
from .network import Namespace
from .spec import Container

_TRACED = "trace=%file,connect,chroot"
_MEMORY = Path("/sys/fs/cgroup/memory")
"""Of cgroup v1; on v2 a group of its own needs its parent's controllers, which are not ours to switch on."""


@dataclass(frozen=True)
class BindMount:
    """A file or directory of this machine at a path of the container."""

    source: Path
    target: str
    read_only: bool


class Running:
    """A container from its start to its end. `log` is what it wrote, also before a restart. With `trace`, what strace
    says of every call that names a file, or connects, is written there.
    """

    def __init__(
        self,
        container: Container,
        image: Path,
        network: Namespace,
        mounts: Sequence[BindMount],
        directory: Path,
        *,
        hostname: str,
        host_pid: bool = False,
        trace: Path | None = None,
    ) -> None:
        self.name = container.name
        self.log = directory / f"{container.name}.log"
        self._cgroup = _limited(container.memory, f"{hostname}-{container.name}")
        scratch = directory / f"{container.name}-root"
        scratch.mkdir(exist_ok=True)
        plan = directory / f"{container.name}.json"
        plan.write_text(
            json.dumps(
                {
                    "image": str(image),
                    "scratch": str(scratch),
                    "mounts": [(str(one.source), one.target, one.read_only) for one in mounts],
                    "read_only": container.read_only,
                    "capabilities": sorted(container.capabilities),
                    "uid": container.uid,
                    "gid": container.gid,
                    "groups": list(container.groups),
                    "no_new_privileges": container.no_new_privileges,
                    "workdir": container.workdir,
                    "argv": list(container.argv),
                    "environment": dict(container.environment),
                    "hostname": hostname,
                    "cgroups": [] if self._cgroup is None else [str(self._cgroup)],
                }
            )
        )
        plan.chmod(0o600)
        traced = (
            [] if trace is None else ["strace", "-f", "--seccomp-bpf", "-e", "trace=%file,connect", "-o", str(trace)]
        )
        namespaces = ["--mount", "--ipc", "--uts", *([] if host_pid else ["--pid"]), "--fork", "--kill-child"]
        command = [
            # Its end is also that of the thread that started it, whatever becomes of the tests.
            *(
                "setpriv",
                "--pdeathsig=KILL",
                "nsenter",
                f"--net={network.path}",
                *traced,
                "unshare",
                *namespaces,
                "--propagation=private",
                "--",
            ),
            *(sys.executable, "-I", str(Path(enter.__file__)), str(plan)),
        ]
        self._depth = 1 if trace is None else 2
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the container's first process, as it is called outside. ProcessLookupError when it has ended."""
        pid = self._process.pid
        for _ in range(self._depth):
            try:
                pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
            except (OSError, IndexError) as error:
                raise ProcessLookupError(self.name) from error
        return pid

    def stop(self, grace: float) -> None:
        """SIGTERM, and after a while SIGKILL, as the kubelet ends a container."""
        deadline = time.monotonic() + grace
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
            while self.alive and time.monotonic() < deadline:
                time.sleep(0.05)
        self.kill()

    def kill(self) -> None:
        """All of its processes end with the first."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._cgroup is not None:
            for _ in range(100):
                with suppress(OSError):
                    self._cgroup.rmdir()
                    break
                time.sleep(0.05)


def _limited(memory: int | None, name: str) -> Path | None:
    """A group that has no more memory than that; None where this machine has none to make one in."""
    if memory is None or not os.access(_MEMORY / "memory.limit_in_bytes", os.F_OK):
        return None
    group = _MEMORY / f"pod-{name}-{os.getpid()}-{time.monotonic_ns()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(memory))
    except OSError:
        return None
    return group
