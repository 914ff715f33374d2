"""Workloads where no scheduler made one: a process group, which a shell makes for every job, is the job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from dutycycle_exporter.model import Workload

from .errors import UnusableError
from .processes import HostProcess, ProcessReader


@dataclass(slots=True)
class _ProcessGroup:
    id: str
    uid: int
    members: set[tuple[int, int]] = field(default_factory=set)
    """Pid and start of the leader and of every process that held a GPU: while one lives, the number is not reused."""


class LocalWorkloads:
    """Names process groups, each for as long as a known member of it lives."""

    def __init__(self, reader: ProcessReader, users: Callable[[int], str]) -> None:
        self._reader = reader
        self._users = users
        self._groups: dict[int, _ProcessGroup] = {}

    def name(self, processes: Iterable[HostProcess]) -> Mapping[int, Workload]:
        """The workload of each process, by pid: `local/<pgid>-<start>`, the leader's or the oldest known member's."""
        self._groups = {pgid: group for pgid, group in self._groups.items() if self._lives(pgid, group)}
        named = {}
        for process in sorted(processes, key=lambda process: (process.ticks, process.pid)):
            group = self._groups.get(process.pgid) or self._found(process)
            group.members.add((process.pid, process.ticks))
            named[process.pid] = Workload(group.id, "local", user=self._users(group.uid))
        return named

    def _found(self, oldest: HostProcess) -> _ProcessGroup:
        leader = self._leader(oldest)
        start = int((leader or oldest).start or 0)
        group = self._groups[oldest.pgid] = _ProcessGroup(f"local/{oldest.pgid}-{start}", oldest.uid)
        if leader is not None:
            group.members.add((leader.pid, leader.ticks))
        return group

    def _leader(self, process: HostProcess) -> HostProcess | None:
        try:
            leader = self._reader.read(process.pgid)
        except UnusableError:
            return None
        return leader if leader.pgid == process.pgid else None

    def _lives(self, pgid: int, group: _ProcessGroup) -> bool:
        group.members = {member for member in group.members if self._is_member(pgid, *member)}
        return bool(group.members)

    def _is_member(self, pgid: int, pid: int, ticks: int) -> bool:
        try:
            process = self._reader.read(pid)
        except UnusableError:
            return False
        return process.ticks == ticks and process.pgid == pgid
