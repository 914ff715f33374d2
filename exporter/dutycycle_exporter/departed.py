"""Processes that have ended, as the device's accounting mode remembers them, with the names that they had. Pure."""

from __future__ import annotations

from collections import deque

from dutycycle_exporter.model import FinishedProcess, GpuReading, Ownership, ProcessOwner
from dutycycle_exporter.views import Person

SHOWN = 600.0
"""Seconds for which a process is shown after its end, before division by the time scale."""

MOST = 64
"""Processes that are shown of one device at most: the last ones."""


class DepartedProcesses:
    """The processes that ended on one device not long ago."""

    def __init__(self, time_scale: float) -> None:
        self._shown_for = SHOWN / time_scale
        self._people: dict[int, Person] = {}
        self._departed: deque[tuple[float, FinishedProcess, Person]] = deque(maxlen=MOST)

    def update(self, reading: GpuReading, ownership: Ownership, now: float) -> None:
        """Take those that ended since the previous reading. Names are those that a process had while it ran."""
        for process in reading.finished:
            self._departed.append((now, process, self._people.get(process.pid, Person())))
        while self._departed and not 0 <= now - self._departed[0][0] < self._shown_for:
            self._departed.popleft()
        if ownership.people:
            self._people = {process.pid: person(process.pid, ownership) for process in reading.processes or ()}

    def shown(self) -> tuple[tuple[FinishedProcess, Person], ...]:
        """Those that ended last, the oldest first."""
        return tuple((process, whose) for _, process, whose in self._departed)


def person(pid: int, ownership: Ownership) -> Person:
    """Whose a process is, as far as it is known."""
    owner = ownership.people.get(pid, ProcessOwner())
    return Person(owner.user, ownership.pids.get(pid, ""), owner.command)
