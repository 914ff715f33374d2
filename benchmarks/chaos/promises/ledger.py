"""The usage ledger against what the jobs really held."""

from __future__ import annotations

from collections.abc import Iterator

from ..record import JobTruth, Record
from .quiet import recovery
from .violation import Violation


def bounds(record: Record, job: JobTruth) -> tuple[float, float]:
    """Least and most GPU-seconds that the ledger may have of a job.

    Least: what it certainly held, without the times in which counters were lost or nobody could read them, without a
    scrape at each end, and without what the next pass would have brought.
    """
    until_least, until_most = (job.seen, job.end or record.ended)
    blind = sum(
        max(0.0, min(fault.ended + recovery(record), until_most) - max(fault.began, job.start)) + 2 * record.interval
        for fault in record.faults
        if fault.blinds_any(job.nodes) and fault.began < until_most and fault.ended + recovery(record) > job.start
    )
    late = 0.0 if job.end is not None and job.end < record.calm else 2 * record.pass_interval + record.interval
    slack = 3 * record.interval + 2.0
    least = job.gpus * (until_least - job.start - blind - late - slack)
    most = job.gpus * (until_most - job.start + slack)
    return max(0.0, least), most


def ledger_is_true(record: Record) -> Iterator[Violation]:
    """Every GPU-second of a job is in the ledger once, but for what nobody could see."""
    for job in record.jobs:
        least, most = bounds(record, job)
        found = record.ledger.get(job.subject, 0.0)
        if not least <= found <= most:
            text = f"{job.name}: {found:.1f} GPU-seconds in the ledger, held were {least:.1f} to {most:.1f}"
            yield Violation("the ledger is true", job.subject, job.end or record.ended, text)
    known = {job.subject for job in record.jobs}
    for subject in record.ledger.keys() - known:
        text = f"{record.ledger[subject]:.1f} GPU-seconds of a job that never ran"
        yield Violation("the ledger is true", subject, record.ended, text)
