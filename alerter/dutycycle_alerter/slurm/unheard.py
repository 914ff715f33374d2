"""Jobs that exporters show and Slurm never named. Where `PrivateData` hides the jobs of others, Slurm gives a shorter
list and no error: without a word here, nobody would know that limits, comments and ends of jobs do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dutycycle_alerter.model import JobEvidence
from dutycycle_alerter.slurm.facts import JobFacts, is_slurms
from dutycycle_alerter.slurm.memory import Memory, is_shown

SETTLED = 300.0
"""Seconds after which Slurm has named a job that began."""


class Unheard:
    """What the last pass found: evidence is there only after Slurm was asked, and what it says shows a pass later."""

    def __init__(self, settled: float = SETTLED) -> None:
        self._settled = settled
        self._running = 0
        self._never_named = 0

    def look(self, jobs: Iterable[JobEvidence], facts: Mapping[str, JobFacts], memory: Memory, cluster: str) -> None:
        """Count the jobs of this Slurm that run by the exporters' word, for a while, and those it never named."""
        self._running = self._never_named = 0
        for item in jobs:
            runs = item.visible and item.ended is None and item.at - item.job.start >= self._settled
            if runs and is_slurms(item.job, cluster):
                known = facts.get(item.job.id)
                self._running += 1
                # The number of a task of an array is known from Slurm alone.
                self._never_named += is_shown(item.job.job_id) if known is None else never_named(known, memory)

    def told(self) -> str:
        """For people; empty where Slurm named them all."""
        if not self._never_named:
            return ""
        return (
            f"{self._never_named} of {self._running} running jobs that exporters show are not in Slurm's list:"
            " `PrivateData` may hide them from the alerter's user"
        )


def never_named(known: JobFacts, memory: Memory) -> bool:
    """Whether neither slurmctld, as far as we remember, nor accounting told of the job."""
    return known.absent and known.id not in memory.jobs and known.final is None
