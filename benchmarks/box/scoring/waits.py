"""The second score: jobs by what their GPUs waited for, and whether anything was told of them.

No rule, window or bound of the product is in it, so it can say what the first one cannot: that the table itself misses
something, or that jobs are told of that lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.box.model import Job, SeenIncident, Truth
from benchmarks.box.scoring import record
from benchmarks.box.scoring.ratios import Share, share

WASTING, WELL = 0.30, 0.10
"""Of a job's GPU time what waits took for which something is to blame: from here on it wastes, and below here it is
well.
"""

SHORTEST = 3600.0
"""A shorter job is neither."""

NO_WAIT = frozenset({"low_sm_activity"})
"""What is told of kernels that compute badly, of which a ledger of waits knows nothing."""


def use_of(case: record.Case, job: Job, truth: Truth, incidents: Iterable[SeenIncident]) -> record.Use:
    told = (
        {incident.rule, *incident.contributing}
        for incident in incidents
        if incident.kind == "efficiency" and incident.severity != "info"
    )
    return record.Use(case, worth(job, truth), tuple(sorted(set().union(*told))))


def worth(job: Job, truth: Truth) -> str:
    """`wasting`, `well` or `between`; also where the ledger does not say what was wasted."""
    length = job.end - job.start
    if truth.wasted is None or length < SHORTEST:
        return "between"
    wasted = truth.wasted / (len(job.gpus) * length)
    return "wasting" if wasted >= WASTING else "well" if wasted < WELL else "between"


def wasting_told(uses: Iterable[record.Use]) -> Share:
    """Of the jobs that waste, those of which anything was told."""
    return share(bool(use.told) for use in uses if use.worth == "wasting")


def well_told(uses: Iterable[record.Use]) -> Share:
    """Of the jobs that are well, those of which a wait was told."""
    return share(not NO_WAIT.issuperset(use.told) for use in uses if use.worth == "well")
