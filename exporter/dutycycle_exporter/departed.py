"""Processes that have ended, as the device's accounting mode remembers them, with the names that they had. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dutycycle_exporter.model import FinishedProcess, GpuReading, Ownership, ProcessOwner
from dutycycle_exporter.views import Person

SHOWN = 600.0
"""Seconds for which a process is shown after its end, before division by the time scale."""

MOST = 64
"""Processes that are shown of one device at most: the last ones."""


@dataclass(frozen=True, slots=True)
class _Departed:
    told: float
    process: FinishedProcess
    whose: Person

    @property
    def end(self) -> float:
        return self.process.start + self.process.seconds


class DepartedProcesses:
    """The processes that ended on one device not long ago, each once however often it is told: a child that was
    replaced tells all that NVML remembers.
    """

    def __init__(self, time_scale: float) -> None:
        self._shown_for = SHOWN / time_scale
        self._since: float | None = None
        self._people: dict[int, Person] = {}
        self._departed: list[_Departed] = []

    def update(self, reading: GpuReading, ownership: Ownership, now: float, day: float) -> None:
        """Take those that ended since the device was seen first. Names are those that a process had while it ran.

        `day` is by how many seconds the time of day, by which processes begin, is ahead of the clock of `now`.
        """
        self._since = now if self._since is None else self._since
        oldest = max(self._since, now - self._shown_for)
        known = {(one.process.pid, one.process.start) for one in self._departed}
        for process in reading.finished:
            new = _Departed(now, process, self._people.get(process.pid, Person()))
            if new.end - day > oldest and (process.pid, process.start) not in known:
                known.add((process.pid, process.start))
                self._departed.append(new)
        self._departed = [one for one in self._departed if now - one.told < self._shown_for]
        self._departed.sort(key=lambda one: one.end)
        del self._departed[:-MOST]
        if ownership.people:
            running = (*(reading.processes or ()), *reading.graphics)
            self._people = {process.pid: person(process.pid, ownership) for process in running}

    def shown(self) -> tuple[tuple[FinishedProcess, Person], ...]:
        """Those that ended last, the oldest first. Of those that no label tells apart only the newest."""
        newest: dict[tuple[int, Person], FinishedProcess] = {}
        for one in reversed(self._departed):
            newest.setdefault((one.process.pid, one.whose), one.process)
        return tuple((process, whose) for (_, whose), process in reversed(newest.items()))


def person(pid: int, ownership: Ownership) -> Person:
    """Whose a process is, as far as it is known."""
    owner = ownership.people.get(pid, ProcessOwner())
    return Person(owner.user, ownership.pids.get(pid, ""), owner.command)
