"""The usage ledger against what the jobs really held."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..happened import EVERY_NODE, Happened
from ..record import ExporterPage, JobTruth, Record
from .lost import lost
from .quiet import Span, during, recovery, without
from .violation import ASKED, Found, Violation

_ENOUGH = 60.0
"""Measured wall seconds of a GPU from which on a mean says something."""
_COVERED = 0.9
"""Of the time that a job was seen, the part of which samples tell at least."""
_TOLERANCE = 0.03
"""By which a mean may be off: GPUs of a job are not all measured at the same times."""


def bounds(record: Record, job: JobTruth) -> tuple[float, float]:
    """Least and most GPU-seconds that the ledger may have of a job.

    Least: what it certainly held, without a scrape at each end, what the next pass would have brought, and what could
    not be seen. That is the time in which counters were lost; where they could only not be read, that of a job which
    began or ended meanwhile: what a counter gained between two answers is in the second one.
    """
    until = job.end or record.ended
    unseen = [span for fault in record.faults if (span := _unseen(record, job, fault, until)) is not None]
    slack = 3 * record.interval + 2.0
    least = job.gpus * (_certain(record, job, unseen) - slack)
    most = job.gpus * (until - job.start + slack)
    return max(0.0, least), most


def _certain(record: Record, job: JobTruth, unseen: Collection[Span]) -> float:
    """Wall seconds for which it certainly held its GPUs outside of these spans, each of which may cost a scrape more,
    and which passes have brought by the end.
    """
    # Of a job that was there before the alerters the first pass is the beginning.
    held = [(max(job.start, record.began), job.seen)]
    seen = sum(until - since for since, until in without(held, unseen)) - len(unseen) * record.interval
    late = 0.0 if job.end is not None and job.end < record.calm else 2 * record.pass_interval + record.interval
    return seen - late


def _unseen(record: Record, job: JobTruth, fault: Happened, until: float) -> Span | None:
    if not fault.blinds_any(job.parts):
        return None
    began, ended = fault.began, fault.ended + recovery(record)
    edge = began <= job.start or ended >= until
    if began > until or ended < job.start or not (fault.loses or edge or lost(record, fault)):
        return None
    return (began, ended) if edge else (_not_fetched(record, job, fault), _back(record, job, fault))


def _not_fetched(record: Record, job: JobTruth, fault: Happened) -> float:
    """Since when counters that were lost had not been read: another fault may have been in the way already."""
    near = during(record, fault.began - recovery(record), fault.began)
    return min([fault.began, *(one.began for one in near if one.blinds_any(job.parts))])


def _back(record: Record, job: JobTruth, fault: Happened) -> float:
    """When the exporters of its nodes counted again; of Prometheus' own losses there is no such evidence."""
    latest = fault.ended + recovery(record)
    if EVERY_NODE in fault.blinds:
        return latest
    back = [page.at for node in job.nodes & fault.blinds for page in _counting(record, node, fault.ended)]
    return min(latest, max(back, default=latest))


def _counting(record: Record, node: str, since: float) -> list[ExporterPage]:
    pages = (page for page in record.exporters if page.node == node and page.at >= since)
    return next(([page] for page in pages if page.status == 200 and page.success == 1), [])


def measurements_are_true(record: Record) -> Iterator[Found]:
    """Of the time that was measured as much was busy as truly was; and no more was measured than was held."""
    for job in record.jobs:
        observed, busy = (record.measured or {}).get(job.subject, (0.0, 0.0))
        held = record.ledger.get(job.subject, 0.0)
        due = _measurable(record, job)
        asked = [record.measured is not None and due > 0, observed > 0]
        mean = busy / observed if job.utilization is not None and observed >= _ENOUGH * job.gpus else None
        yield from [ASKED] * (sum(asked) + (mean is not None))
        if asked[0] and observed < due:
            yield _mistaken(record, job, f"{observed:.1f} GPU-seconds measured, at least {due:.1f} could be")
        if observed > held + job.gpus * (3 * record.interval + 2.0):
            yield _mistaken(record, job, f"{observed:.1f} GPU-seconds measured, {held:.1f} held")
        if mean is not None and abs(mean - (job.utilization or 0.0)) > _TOLERANCE:
            text = f"busy for {mean:.3f} of {observed:.0f} GPU-seconds, truly {job.utilization:.3f}"
            yield _mistaken(record, job, text)


def _measurable(record: Record, job: JobTruth) -> float:
    """GPU-seconds of which samples have to tell at least; 0 where it was not in sight for long enough."""
    until = job.end or record.ended
    blind = [
        (one.began, one.ended + recovery(record))
        for one in record.faults
        if one.blinds_any(job.parts) and one.began <= until and one.ended + recovery(record) >= job.start
    ]
    return max(0.0, _COVERED * job.gpus * (_certain(record, job, blind) - 3 * record.interval - 2.0))


def _mistaken(record: Record, job: JobTruth, text: str) -> Violation:
    return Violation("measurements are true", job.subject, job.end or record.ended, f"{job.name}: {text}")


def ledger_is_true(record: Record) -> Iterator[Found]:
    """Every GPU-second of a job is in the ledger once, but for what nobody could see."""
    for job in record.jobs:
        least, most = bounds(record, job)
        yield ASKED
        found = record.ledger.get(job.subject, 0.0)
        if not least <= found <= most:
            text = f"{job.name}: {found:.1f} GPU-seconds in the ledger, held were {least:.1f} to {most:.1f}"
            yield Violation("the ledger is true", job.subject, job.end or record.ended, text)
    known = {job.subject for job in record.jobs}
    for subject in record.ledger.keys() - known:
        text = f"{record.ledger[subject]:.1f} GPU-seconds of a job that never ran"
        yield Violation("the ledger is true", subject, record.ended, text)
