"""Runs a command in a root file system, in namespaces of its own: all that is mounted, all that runs, ends with it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.exporter.daemon import eventually

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
SEEN = ("/etc/resolv.conf", "/etc/hosts")
"""Files that an engine puts into every container."""


@dataclass(frozen=True)
class Mount:
    """A file or directory of the machine at a path of the container."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Confinement:
    """As whom and in what a command runs; the defaults are those of a pod that is `restricted`."""

    user: tuple[int, int] = (10001, 10001)
    read_only: bool = True
    kept: bool = False
    """What is written stays in the root; else it is kept in memory, and the root is as it was."""
    capabilities: bool = False
    memory: Sequence[str] = ("/tmp",)
    """Paths that are empty, in memory and open to `user`."""
    mounts: Sequence[Mount] = ()
    host: str = ""
    """A host name of its own."""


def command(
    root: Path, argv: Sequence[str], confinement: Confinement, *, environment: Mapping[str, str], workdir: str
) -> list[str]:
    """What runs `argv` as the first process of its namespace. Needs root."""
    uid, gid = confinement.user
    as_whom = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
    if not confinement.capabilities:
        as_whom += ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    # What `--kill-child` sets is forgotten where the user changes.
    as_whom.append("--pdeathsig=KILL")
    with_what = ["env", "-i", f"--chdir={workdir}", *(f"{name}={value}" for name, value in environment.items())]
    entered = ["chroot", str(root), *as_whom, *with_what, *argv]
    named = [f"printf %s {shlex.quote(confinement.host)} > /proc/sys/kernel/hostname"] if confinement.host else []
    script = "\n".join(["set -eu", *named, *_mounting(root, confinement), f"exec {shlex.join(entered)}"])
    return [
        *(
            "unshare",
            *(["--uts"] if named else []),
            "--mount",
            "--pid",
            "--ipc",
            "--fork",
            "--kill-child",
            "--propagation=private",
            "--",
        ),
        *("/bin/sh", "-c", script),
    ]


def _mounting(root: Path, confinement: Confinement) -> list[str]:
    """Lines of a script. What is mounted on nothing gets something to be mounted on."""
    at = shlex.quote(str(root))
    if confinement.kept:
        lines = [f"mount --bind {at} {at}"]
    else:
        written = f"upperdir={at}/tmp/upper,workdir={at}/tmp/work"
        lines = [f"mount -t tmpfs tmpfs {at}/tmp", f"mkdir {at}/tmp/upper {at}/tmp/work"]
        lines += [f"mount -t overlay -o lowerdir={at},{written} overlay {at}"]
    lines += [f"mount -t tmpfs -o mode=755 tmpfs {at}/dev", f"mount -t tmpfs -o mode=755 tmpfs {at}/run"]
    for name in DEVICES:
        lines += [f"touch {at}/dev/{name}", f"mount --bind /dev/{name} {at}/dev/{name}"]
    lines += [
        f"mkdir {at}/dev/shm",
        f"mount -t tmpfs -o mode=1777 tmpfs {at}/dev/shm",
        f"ln -s /proc/self/fd {at}/dev/fd",
    ]
    lines += [f"mount -t proc proc {at}/proc"]
    lines += [f"[ ! -e {path} ] || [ ! -f {at}{path} ] || mount --bind {path} {at}{path}" for path in SEEN]
    uid, gid = confinement.user
    for path in confinement.memory:
        options = f"uid={uid},gid={gid},mode=1777" if path == "/tmp" else f"uid={uid},gid={gid},mode=750"
        lines += [f"mkdir -p {at}{path}", f"mount -t tmpfs -o {options} tmpfs {at}{path}"]
    for mount in confinement.mounts:
        source, target = shlex.quote(str(mount.source)), shlex.quote(f"{root}{mount.target}")
        lines.append(
            f"mkdir -p {target}"
            if mount.source.is_dir()
            else f"mkdir -p $(dirname {target}); [ -e {target} ] || touch {target}"
        )
        lines.append(f"mount --bind {source} {target}")
        if not mount.writable:
            lines.append(f"mount -o remount,bind,ro {target}")
    if confinement.read_only:
        lines.append(f"mount -o remount,bind,ro {at}")
    return lines


class Running:
    """A command that runs until the end of the `with`; `pid` is what it has outside."""

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Its namespace, and all that is in it, ends with it.
        self.process.kill()
        self.process.wait()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Of the first process of the namespace, as it is called outside."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(eventually(lambda: path.read_text().split(), "it has started")[0])

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)
