"""Machines of their own on this one: each sees its files, and what it changes of them is kept apart.

An overlay over the root directory, in a mount namespace; processes, network and users' processes are this machine's.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.required import lacking

PROGRAMS = ("unshare", "nsenter", "setpriv", "systemd-sysusers", "systemd-tmpfiles", "userdel")
_SHARED = ("/proc", "/sys", "/dev", "/tmp")
"""What is this machine's own: sockets and devices do not work through an overlay."""

_MOUNT = """\
set -e
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
for shared in {shared}; do mount --rbind "$shared" "$1/root$shared"; done
echo mounted
exec sleep infinity
"""

_SYSTEMCTL = """\
#!/bin/sh
# What a running systemd would be asked; units are started by the test.
echo "$*" >> /run/systemctl
"""

_KEPT = ("etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-", "etc/.pwd.lock", "run/systemctl")
"""By the system's own programs, which change users, and by the one that stands for systemd."""

State = tuple[str, int, str]
"""Of a path: type and mode, owner, contents or what a link says."""


class Machine:
    """A context manager. `upper` is what differs from this machine's files."""

    def __init__(self, name: str) -> None:
        self.name = name
        memory = Path("/dev/shm")
        self._directory = Path(tempfile.mkdtemp(prefix=f"machine-{name}-", dir=memory if memory.is_dir() else None))
        self._directory.chmod(0o755)
        self.upper = self._directory / "upper"
        self._holder: subprocess.Popen[bytes] | None = None
        self._before: Mapping[str, State | None] = {}

    def __enter__(self) -> Self:
        for name in ("upper", "work", "root"):
            (self._directory / name).mkdir(mode=0o755)
        script = _MOUNT.format(shared=" ".join(_SHARED))
        # Ends with the test, whatever becomes of it, and the mounts with it.
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]
        self._holder = subprocess.Popen(
            [*command, "sh", "-c", script, "sh", str(self._directory)], stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        said = self._holder.stdout.readline()
        if said != b"mounted\n":
            self._end()
            lacking("the right to mount an overlay over /")
        self.write("/usr/local/bin/systemctl", _SYSTEMCTL, 0o755)
        self.run("mkdir", "-p", "/run/systemd/system")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._holder is not None:
            self._holder.kill()
            self._holder.wait()
            if self._holder.stdout is not None:
                self._holder.stdout.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def command(self, *command: str, user: str | None = None) -> list[str]:
        """That runs a command there; as a user, without any privilege, as systemd does it for our units."""
        assert self._holder is not None
        # By their paths: the environment is the command's.
        namespace = f"--mount=/proc/{self._holder.pid}/ns/mnt"
        inside = [_path("nsenter"), namespace, _path("chroot"), str(self._directory / "root")]
        if user is not None:
            ids = [f"--reuid={user}", f"--regid={user}", "--init-groups"]
            inside += [_path("setpriv"), *ids, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
        return [*inside, *command]

    def run(self, *command: str, environment: Mapping[str, str] | None = None, code: int = 0) -> str:
        """What a command of root's says, on both outputs."""
        own = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **(environment or {})}
        done = subprocess.run(
            self.command(*command), env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, check=False
        )
        said = done.stdout.decode(errors="replace")
        assert done.returncode == code, f"{command} ended with {done.returncode}: {said}"
        return said

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """A file, as an editor leaves it."""
        command = 'mkdir -p "${1%/*}" && cat > "$1" && chmod "$2" "$1"'
        subprocess.run(
            self.command("sh", "-c", command, "sh", path, f"{mode:o}"), input=text.encode(), check=True, timeout=60
        )

    def read(self, path: str) -> str:
        return self.run("cat", path)

    def asked_of_systemd(self) -> list[str]:
        """What systemctl was called for, since it was asked last."""
        # Not behind the overlay's back, which may not see it.
        return self.run("sh", "-c", "cat /run/systemctl 2>/dev/null; rm -f /run/systemctl").splitlines()

    def remember(self) -> None:
        """What is there now is what `changed` compares with."""
        self._before = {path: _state(self.upper / path) for path in self._paths()}

    def changed(self) -> list[str]:
        """Paths that are not as they were, but for what programs of the system keep."""
        found = []
        for path in sorted({*self._paths(), *self._before}):
            was = self._before[path] if path in self._before else _state(Path("/") / path)
            # A copy that is in the overlay alone may be the same as the file below it.
            copy = self.upper / path
            now = _state(copy) if os.path.lexists(copy) else _state(Path("/") / path)
            if was != now and path not in _KEPT:
                found.append(f"/{path}")
        return found

    def _paths(self) -> Iterable[str]:
        for top, directories, files in os.walk(self.upper):
            for name in (*directories, *files):
                yield str((Path(top) / name).relative_to(self.upper))


def _path(name: str) -> str:
    found = shutil.which(name)
    assert found is not None
    return found


def _state(path: Path) -> State | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISCHR(found.st_mode) and found.st_rdev == 0:
        return None  # how an overlay says that a file is gone
    content = ""
    if stat.S_ISLNK(found.st_mode):
        content = str(path.readlink())
    elif stat.S_ISREG(found.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    return oct(found.st_mode), found.st_uid, content


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, as systemd does it."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
