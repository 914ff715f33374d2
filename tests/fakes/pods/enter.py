"""Runs in new namespaces: builds a container's file system as a plan says, takes rights away, and becomes its program.

Called as `python enter.py PLAN`, with the plan as JSON; needs root. Stands alone: nothing of the tests is imported.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND, _MS_REC = 1, 2, 4, 8, 32, 4096, 16384
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_READ, _PR_CAPBSET_DROP = 38, 23, 24
_CAPABILITIES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
    "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN "
    "SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE "
    "MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
)
"""By number."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_READ_ONLY_PROC = ("bus", "fs", "irq", "sys", "sysrq-trigger")
"""What engines leave of /proc for reading only."""


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    arguments = (source.encode(), target.encode(), kind.encode(), flags, data.encode())
    if _LIBC.mount(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"mounting {source} on {target}: {os.strerror(number)}")


def bind(source: str, target: str, *, read_only: bool) -> None:
    """Also a file. What is mounted on nothing gets something to be mounted on, where that can be written."""
    at = Path(target)
    if Path(source).is_dir():
        at.mkdir(parents=True, exist_ok=True)
    elif not at.exists():
        at.parent.mkdir(parents=True, exist_ok=True)
        at.touch()
    mount(source, target, flags=_MS_BIND | _MS_REC)
    if read_only:
        mount("", target, flags=_MS_REMOUNT | _MS_BIND | _MS_RDONLY)


def inside(root: str, path: str) -> str:
    """Where a path of the container is: its links lead to places of the container, never to this machine's."""
    found, left = Path("/"), [part for part in path.split("/") if part]
    for _ in range(1000):
        if not left:
            return f"{root}{found}"
        at = found / left.pop(0)
        if Path(root + str(at)).is_symlink():
            target = str(Path(root + str(at)).readlink())
            found = Path("/") if target.startswith("/") else found
            left = [part for part in target.split("/") if part not in ("", ".")] + left
        elif at.name == "..":
            found = found.parent
        else:
            found = at
    raise OSError(40, f"too many links: {path}")


def build(plan: dict[str, Any]) -> str:
    """The root of the container. Its image stays as it was: what is written is in memory."""
    scratch = plan["scratch"]
    mount("tmpfs", scratch, "tmpfs", 0, "mode=755")
    for name in ("upper", "work", "root"):
        Path(scratch, name).mkdir()
    root = f"{scratch}/root"
    layers = f"lowerdir={plan['image']},upperdir={scratch}/upper,workdir={scratch}/work"
    mount("overlay", root, "overlay", 0, layers)
    mount("proc", f"{root}/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for name in _READ_ONLY_PROC:
        if Path(root, "proc", name).exists():
            bind(f"{root}/proc/{name}", f"{root}/proc/{name}", read_only=True)
    mount("tmpfs", f"{root}/dev", "tmpfs", _MS_NOSUID, "mode=755")
    for name in _DEVICES:
        bind(f"/dev/{name}", f"{root}/dev/{name}", read_only=False)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        Path(root, "dev", name).symlink_to(target)
    Path(root, "dev/shm").mkdir()
    mount("tmpfs", f"{root}/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, "mode=1777,size=64m")
    # Shorter paths first: one volume may be mounted within another.
    for source, target, read_only in sorted(plan["mounts"], key=lambda one: one[1].count("/")):
        bind(source, inside(root, target), read_only=read_only)
    if plan["read_only"]:
        # Of this mount alone: what is mounted in it stays as it is.
        mount("", root, flags=_MS_REMOUNT | _MS_BIND | _MS_RDONLY)
    return root


def confine(plan: dict[str, Any]) -> None:
    """From here on only what the plan allows."""
    kept = {_CAPABILITIES.split().index(name) for name in plan["capabilities"]}
    number = 0
    while _LIBC.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) >= 0:
        if number not in kept and _LIBC.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0):
            raise OSError(ctypes.get_errno(), f"dropping capability {number}")
        number += 1
    os.setgroups(plan["groups"])
    os.setresgid(*[plan["gid"]] * 3)
    os.setresuid(*[plan["uid"]] * 3)
    # Of root, exec takes all that the bounding set allows, of others nothing: what is held now counts for nothing.
    if plan["no_new_privileges"] and _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    for cgroup in plan["cgroups"]:
        Path(cgroup, "cgroup.procs").write_text("0")
    _LIBC.sethostname(plan["hostname"].encode(), len(plan["hostname"].encode()))
    root = build(plan)
    os.chroot(root)
    os.chdir("/")
    confine(plan)
    os.chdir(plan["workdir"])
    os.execvpe(plan["argv"][0], plan["argv"], plan["environment"])


if __name__ == "__main__":
    main()
