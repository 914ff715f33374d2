"""Slurm over time: one call a pass for the jobs, nodes and full reads at their intervals, final figures on demand."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from dutycycle_alerter.errors import LateError, SourceError
from dutycycle_alerter.settings.slurm import Slurm
from dutycycle_alerter.slurm import documents
from dutycycle_alerter.slurm.commands import Commands
from dutycycle_alerter.slurm.documents import Table
from dutycycle_alerter.slurm.fields import Nonsense
from dutycycle_alerter.slurm.model import FinalFigures, SlurmNode, Snapshot
from dutycycle_alerter.slurm.rest import Slurmrestd

CLOCKS_APART = 120
"""Seconds by which our clock may be ahead of slurmctld's where an answer does not tell its own time. Beyond that a
change is seen only by the next full read.
"""
AT_ONCE = 200
"""Jobs in one question to accounting."""


class Way(Protocol):
    """A way to ask Slurm. Every call raises SourceError, and counts what it could not understand in `nonsense`."""

    def jobs(self, since: int | None, nonsense: Nonsense) -> Table | None:
        """All jobs; None where none has changed since."""

    def nodes(self, nonsense: Nonsense) -> Mapping[str, SlurmNode]:
        """All nodes by name."""

    def figures(self, jobs: Sequence[int], since: float, nonsense: Nonsense) -> list[FinalFigures]:
        """Runs of these jobs that are over."""

    def close(self) -> None:
        """Let go of connections."""


class Watch:
    """One Slurm. Not for several threads at once."""

    def __init__(self, way: Way, settings: Slurm) -> None:
        self._way = way
        self._settings = settings
        self._table: Table | None = None
        self._read_at = self._full_at = 0.0
        self._nodes: Mapping[str, SlurmNode] = {}
        self._nodes_at: float | None = None
        self._odd_jobs, self._odd_nodes = Nonsense(), Nonsense()
        self.late = False
        """Whether slurmctld did not answer in time when it was last asked."""

    def snapshot(self, now: float) -> Snapshot:
        """What Slurm says now (Unix seconds). Raises SourceError where it does not tell its jobs: nothing has ended
        then, and nothing is known. Nodes that cannot be read are those of the last time, and it is said.
        """
        self.late = False
        try:
            table = self._jobs(now)
        except LateError:
            self.late = True
            raise
        problem = self._refresh_nodes(now)
        return Snapshot(
            at=now,
            jobs=table.jobs,
            nodes=self._nodes,
            nodes_at=self._nodes_at,
            nodes_error=problem,
            nonsense=self._odd_jobs + self._odd_nodes,
            pending=documents.pending(table.jobs.values()),
        )

    def ended(
        self, jobs: Collection[int], since: float, nonsense: Nonsense | None = None
    ) -> Mapping[int, tuple[FinalFigures, ...]]:
        """Final figures of the runs of these jobs (raw ids) that are over, oldest first, from slurmdbd.

        `since` (Unix seconds) is the start of the oldest. A job of which it knows none is not in it. Empty where
        accounting is switched off. What it could not understand is counted in `nonsense`. Raises SourceError.
        """
        odd = Nonsense() if nonsense is None else nonsense
        if not self._settings.accounting:
            return {}
        found: dict[int, list[FinalFigures]] = {}
        wanted = sorted(set(jobs))
        for first in range(0, len(wanted), AT_ONCE):
            some = wanted[first : first + AT_ONCE]
            for figures in self._way.figures(some, since, odd):
                if figures.id in some and (figures.end or 0.0) >= since:
                    found.setdefault(figures.id, []).append(figures)
        return {job: tuple(sorted(runs, key=lambda run: run.start or 0.0)) for job, runs in found.items()}

    def close(self) -> None:
        """Let go of connections."""
        self._way.close()

    def _jobs(self, now: float) -> Table:
        nonsense = Nonsense()
        known = self._table
        fresh = known is not None and 0 <= now - self._full_at < self._settings.full_interval
        since = self._since(known, now) if known is not None and fresh else None
        table = self._way.jobs(since, nonsense)
        if table is None and known is not None:
            return known
        if table is None or (since is not None and not table.jobs):
            # Nothing at all, where only changes were asked for, may mean either.
            nonsense = Nonsense()
            table = self._way.jobs(None, nonsense) or Table()
            since = None
        self._table, self._read_at, self._odd_jobs = table, now, nonsense
        if since is None:
            self._full_at = now
        return table

    def _since(self, known: Table, now: float) -> int:
        # Our clock may have been ahead for a while.
        return known.updated if known.updated else max(0, int(min(self._read_at, now)) - CLOCKS_APART)

    def _refresh_nodes(self, now: float) -> str:
        """Why the nodes could not be read, if they could not."""
        if self._nodes_at is not None and 0 <= now - self._nodes_at < self._settings.nodes_interval:
            return ""
        nonsense = Nonsense()
        try:
            self._nodes = self._way.nodes(nonsense)
        except SourceError as error:
            self.late = isinstance(error, LateError)
            return str(error)
        self._nodes_at, self._odd_nodes = now, nonsense
        return ""


def connect(settings: Slurm) -> Watch:
    """By slurmrestd where there is a URL, else by the commands. Nothing is asked yet."""
    return Watch(Slurmrestd(settings) if settings.url else Commands(settings), settings)
