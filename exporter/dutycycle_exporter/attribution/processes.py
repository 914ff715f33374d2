"""A process that holds a GPU, as /proc tells of it: since when, whose, in which process group and cgroup."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from .cgroup import Group, parse
from .errors import UnusableError
from .text import is_name

_BOOT_TIME_VALID = 300.0
_CLOCK_STEP = 2.0
_MAX_BYTES = 1 << 16
_UIDS = re.compile(rb"^Uid:\t(\d{1,10})\t", re.MULTILINE)
_BOOT_TIME = re.compile(rb"^btime (\d{1,12})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HostProcess:
    """One process. `ticks` (since boot) tells it from an earlier one of the same number.

    `start` is in Unix seconds, None where the time of boot is not known. `uid` is the real user's. `command` is the
    kernel's short name of it, which the process may choose: empty where it cannot be shown. `draws`: on the GPU that it
    is read of, it has a graphics context alone.
    """

    pid: int
    ticks: int
    start: float | None
    uid: int
    pgid: int
    group: Group | None
    command: str = ""
    draws: bool = False


class ProcessReader:
    """Reads processes one by one, each once in a turn."""

    def __init__(self, procfs: Path) -> None:
        self._procfs = procfs
        self._ticks_per_second = os.sysconf("SC_CLK_TCK")
        self._boot: float | None = None
        self._boot_read_at: float | None = None
        self._now = 0.0
        self._turn: dict[int, HostProcess | str] = {}

    def begin(self, now: float) -> None:
        """Begins a turn: what was read before is read anew."""
        self._now = now
        self._turn = {}
        if self._boot_read_at is None or not 0 <= now - self._boot_read_at < _BOOT_TIME_VALID:
            self._read_boot_time()

    def read(self, pid: int) -> HostProcess:
        """Raises UnusableError: gone, permission, unreadable, malformed, or reused (it began after `now`)."""
        if pid not in self._turn:
            try:
                self._turn[pid] = self._read(pid)
            except UnusableError as error:
                self._turn[pid] = error.reason
        known = self._turn[pid]
        if isinstance(known, str):
            raise UnusableError(known)
        return known

    def _read(self, pid: int) -> HostProcess:
        # Through the directory's descriptor all three files are of one process, even if its number is reused meanwhile.
        try:
            directory = os.open(self._procfs / str(pid), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                stat, status, cgroup = (_file(directory, name) for name in ("stat", "status", "cgroup"))
            finally:
                os.close(directory)
        except (FileNotFoundError, ProcessLookupError, NotADirectoryError) as error:
            raise UnusableError("gone") from error
        except PermissionError as error:
            raise UnusableError("permission") from error
        except OSError as error:
            raise UnusableError("unreadable") from error
        pgid, ticks = parse_stat(stat)
        start = self._start(ticks)
        if start is not None and start > self._now + _CLOCK_STEP:
            # Either the clock was set, or NVML meant an earlier process of this number.
            self._read_boot_time()
            start = self._start(ticks)
            if start is not None and start > self._now + _CLOCK_STEP:
                raise UnusableError("reused")
        group = parse(os.fsdecode(cgroup))
        return HostProcess(pid, ticks, start, parse_uid(status), pgid, group, parse_command(stat))

    def _start(self, ticks: int) -> float | None:
        return None if self._boot is None else self._boot + ticks / self._ticks_per_second

    def _read_boot_time(self) -> None:
        if self._boot_read_at == self._now:
            return
        self._boot_read_at = self._now
        try:
            found = _BOOT_TIME.search((self._procfs / "stat").read_bytes())
        except OSError:
            return
        # A clock that is set by a little may move it by a second; starts, and names made of them, must not follow.
        if found and (self._boot is None or abs(int(found[1]) - self._boot) >= _CLOCK_STEP):
            self._boot = float(found[1])


def parse_stat(stat: bytes) -> tuple[int, int]:
    """Process group and start in clock ticks since boot. The command before them may hold spaces and parentheses."""
    try:
        fields = stat[stat.rindex(b")") + 1 :].split()
        pgid, ticks = int(fields[2]), int(fields[19])
    except (ValueError, IndexError) as error:
        raise UnusableError("malformed") from error
    if not 0 <= ticks < 2**64:
        raise UnusableError("malformed")
    return pgid, ticks


def parse_command(stat: bytes) -> str:
    """The command's name between the outermost parentheses, at most 15 bytes; empty where it is no printable text."""
    name = stat[stat.find(b"(") + 1 : stat.rfind(b")")].decode("utf-8", "replace")
    return name if is_name(name) else ""


def parse_uid(status: bytes) -> int:
    """The real uid. The first line's name cannot forge it: the kernel escapes line breaks there."""
    found = _UIDS.search(status)
    if found is None:
        raise UnusableError("malformed")
    return int(found[1])


def _file(directory: int, name: str) -> bytes:
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory)
    try:
        return os.read(descriptor, _MAX_BYTES)
    finally:
        os.close(descriptor)
