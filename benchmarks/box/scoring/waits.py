"""The second score: jobs by what their GPUs waited for, and whether anything was told of that.

No rule, window or bound of the product is in it, so it can say what the first one cannot: that the table itself misses
something, or that jobs are told of that lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.box.model import Job, SeenIncident, Truth
from benchmarks.box.scoring import record
from benchmarks.box.scoring.ratios import Share, share
from benchmarks.box.scoring.story import story

WASTING, WELL = 0.30, 0.10
"""Of a job's GPU time what waits took for which something is to blame: from here on it wastes, and below here it is
well.
"""

SHORTEST = 3600.0
"""A shorter job is neither."""

NO_WAIT = frozenset({"low_sm_activity"})
"""What is told of kernels that compute badly, of which a ledger of waits knows nothing: on neither side does it count.
"""


def use_of(
    case: record.Case, job: Job, truth: Truth, incidents: Iterable[SeenIncident], end: float = float("inf")
) -> record.Use:
    """In a run that ended at `end`."""
    told: set[str] = set()
    of_loss = False
    for incident in incidents:
        rules = {incident.rule, *incident.contributing}
        if incident.kind != "efficiency" or incident.severity == "info":
            continue
        told |= rules
        of_loss |= not NO_WAIT.issuperset(rules) and _loses(incident, job, truth, end)
    return record.Use(case, worth(job, truth), tuple(sorted(told)), truth.wasted, of_loss)


def worth(job: Job, truth: Truth) -> str:
    """`wasting`, `well` or `between`; also where the ledger does not say what was wasted."""
    length, lost = job.end - job.start, lost_share(job, truth)
    if lost is None or length < SHORTEST:
        return "between"
    return "wasting" if lost >= WASTING else "well" if lost < WELL else "between"


def lost_share(job: Job, truth: Truth) -> float | None:
    """Of a job's GPU time, what was lost to waits; None where that was not kept."""
    return None if truth.wasted is None else truth.wasted / (len(job.gpus) * (job.end - job.start))


def _loses(incident: SeenIncident, job: Job, truth: Truth, end: float) -> bool:
    """Whether in the time that an incident tells of, its window with it, more was lost than jobs that are well lose."""
    told = [[span.start, span.end] for span in story(incident, end).spans]
    if incident.started is not None:
        told[0][0] = incident.started
    times = [(max(since, job.start), min(until, job.end)) for since, until in told]
    seconds = sum(max(0.0, until - since) for since, until in times)
    lost = sum(_lost_within(truth, since - job.start, until - job.start) for since, until in times)
    return lost > 0 and lost >= WELL * seconds * len(job.gpus)


def _lost_within(truth: Truth, since: float, until: float) -> float:
    common = ((min(end, until) - max(start, since), end - start, lost) for start, end, lost in truth.losses)
    return sum(lost * seconds / length for seconds, length, lost in common if seconds > 0)


def wasting_told(uses: Iterable[record.Use]) -> Share:
    """Of the jobs that waste, those of which a wait was told while they lost."""
    return share(use.of_loss for use in uses if use.worth == "wasting")


def well_told(uses: Iterable[record.Use]) -> Share:
    """Of the jobs that are well, those of which a wait was told at any time."""
    return share(not NO_WAIT.issuperset(use.told) for use in uses if use.worth == "well")


def anything_told(uses: Iterable[record.Use], worth: str) -> Share:
    """Of the jobs of a worth, those of which anything was told at any time."""
    return share(bool(use.told) for use in uses if use.worth == worth)


def hours_told(uses: Sequence[record.Use]) -> tuple[float, float]:
    """GPU-hours that jobs of any length lost to waits, and those of them that lie in jobs that were told of."""
    lost = [(use.lost or 0.0, use.of_loss) for use in uses]
    return sum(each for each, _ in lost) / 3600, sum(each for each, told in lost if told) / 3600
