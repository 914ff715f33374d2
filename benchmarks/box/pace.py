"""Whether the machine kept pace with the clock: where it did not, a run tells of the machine and not of the product."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .nodes.protocol import Report

LATE = 0.02
"""Share of the time, or of the readings, from which on what came late has spoilt a run."""
LOST = 0.05
"""Share of the passes that may not be made at all: a pass that takes longer than its interval is overdue by less than
another one for ever, and yet every second one is missing.
"""
JOB_LATE = 60.0
"""Seconds of the scenario by which a job may come late. Truth leaves five minutes for what does
(mechanisms.truth.conditions.CERTAIN), and at 60 times a process that stands still for a second has lost one.
"""


@dataclass(frozen=True)
class Pace:
    """Of one run. Shares are of its time, or of what there should have been."""

    passes_overdue: float = 0.0
    scrapes_overdue: float = 0.0
    """Of all nodes on average."""
    passes_made: float = 1.0
    """Of those that were due."""
    readings_late: float = 0.0
    job_late: float = 0.0
    """Seconds of the scenario by which a job, or a change of one, came late at most."""

    @property
    def late(self) -> float:
        return max(self.passes_overdue, self.scrapes_overdue)

    def reasons(self) -> tuple[str, ...]:
        """Why the run does not count; none where it does."""
        found = {
            f"passes were overdue for {self.passes_overdue:.1%} of the time": self.passes_overdue > LATE,
            f"scrapes were overdue for {self.scrapes_overdue:.1%} of the time": self.scrapes_overdue > LATE,
            f"{self.passes_made:.0%} of the passes were made": self.passes_made < 1 - LOST,
            f"{self.readings_late:.0%} of the readings of NVML came late": self.readings_late > LATE,
            f"a job was late by {self.job_late:.0f} s": self.job_late > JOB_LATE,
        }
        return tuple(reason for reason, true in found.items() if true)


def paced(*, passes: float, scrapes: Mapping[str, float], made: float, due: float, reports: Iterable[Report]) -> Pace:
    """`passes` and `scrapes`, by node, are the shares of time in which one was overdue."""
    told = list(reports)
    return Pace(
        passes_overdue=passes,
        scrapes_overdue=sum(scrapes.values()) / max(1, len(scrapes)),
        passes_made=made / due if due else 1.0,
        readings_late=max((one.late_reads / one.reads for one in told if one.reads), default=0.0),
        job_late=max((by for one in told for by in one.late_jobs.values()), default=0.0),
    )
