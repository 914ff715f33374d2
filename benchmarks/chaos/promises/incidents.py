"""What is told against what is true: nothing is lost, nothing is made up, nothing ends that goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..happened import Happened
from ..record import Condition, JobTruth, Record, StoredEvent, StoredIncident
from .quiet import FOREVER, Span, evaluates, quiet, recovery, slack
from .violation import ASKED, Found, Violation

JOBS = "efficiency"
"""The class of incidents of jobs."""
OPENS = ("opened", "reopened")
_EPILOG = 3.0
"""Wall seconds by which Slurm may say that a job is over before its epilog has let go of the GPUs."""


def active_spans(record: Record, incidents: Iterable[StoredIncident]) -> list[Span]:
    """When they were active, by their history."""
    spans: list[Span] = []
    for incident in incidents:
        since: float | None = None
        for event in (event for event in record.events if event.incident == incident.id):
            if event.kind in OPENS:
                since = event.at
            elif event.kind == "resolved" and since is not None:
                spans.append((since, event.at))
                since = None
        if since is not None:
            spans.append((since, FOREVER))
    return spans


def _active(record: Record, subject: str, at: float) -> bool:
    mine = [one for one in record.incidents if one.subject == subject and one.kind == JOBS]
    return any(since <= at < until for since, until in active_spans(record, mine))


def no_incident_is_lost(record: Record) -> Iterator[Found]:
    """What is wrong for long enough, while it can be seen, is told."""
    for job in record.jobs:
        for one in job.conditions:
            since = max(one.since, job.start + job.grace)
            for begin, end in quiet(record, lambda fault, job=job: hides(fault, job), since, one.ends(record.ended)):
                # Whoever looks back over a window needs all of it to be clear.
                due = begin + one.window + slack(record)
                if due > end:
                    continue
                yield ASKED
                if not _active(record, job.subject, due):
                    text = f"{job.name} was {sorted(one.rules)} for {end - begin:.0f} s in which nothing was in the way"
                    yield Violation("no incident is lost", job.subject, due, text)


def hides(fault: Happened, job: JobTruth) -> bool:
    """Whether a fault is in the way of what has to be told of a job."""
    return fault.blinds_any(job.parts) or evaluates(fault)


def no_incident_is_made_up(record: Record) -> Iterator[Found]:
    """Nobody whose job is healthy is accused, and nobody of what is not the case; unknown is never idle."""
    jobs = {job.subject: job for job in record.jobs}
    for event in record.events:
        incident = record.incident[event.incident]
        rule = _named(event, incident.rule)
        if rule is None or incident.kind != JOBS:
            continue
        job = jobs.get(incident.subject)
        yield ASKED
        if job is None:
            yield _made_up(incident.subject, event, f"no such job ran: {incident.rule}")
            continue
        held = [one for one in job.conditions if one.since <= event.at <= one.ends(FOREVER) + one.after + slack(record)]
        if not held:
            yield _made_up(job.subject, event, f"{job.name} was well when incident {incident.id} ({rule}) {event.kind}")
        elif not any(rule in one.rules for one in held):
            rules = sorted(rule for one in held for rule in one.rules)
            yield _made_up(job.subject, event, f"{job.name} is {rules}, and incident {incident.id} says {rule}")


def _named(event: StoredEvent, last: str) -> str | None:
    """The rule by which an event accuses a job; `last` is the one at the end, for events that name none."""
    if event.kind in OPENS:
        return str(event.data.get("rule") or last)
    return str(event.data["rule"]) if event.kind == "primary changed" and "rule" in event.data else None


def _made_up(subject: str, event: StoredEvent, text: str) -> Violation:
    return Violation("no incident is made up", subject, event.at, text)


def no_resolution_is_false(record: Record) -> Iterator[Found]:
    """While it goes on, nothing is said to be over; and no job has ended that runs."""
    jobs = {job.subject: job for job in record.jobs}
    for event in record.events:
        incident = record.incident[event.incident]
        job = jobs.get(incident.subject)
        if event.kind != "resolved" or incident.kind != JOBS or job is None:
            continue
        yield ASKED
        why = str(event.data.get("resolution") or incident.resolution)
        early = job.end is None or event.at < job.seen - _EPILOG
        if why == "ended" and early and not _cleaned_up_late(record, job, event.at):
            text = f"{job.name} runs, and incident {incident.id} was resolved as ended"
            yield Violation("no resolution is false", job.subject, event.at, text)
        elif why == "lost":
            text = f"incident {incident.id} of {job.name} was given up as lost, though nothing was away for a day"
            yield Violation("no resolution is false", job.subject, event.at, text)
        elif why == "cleared" and (one := _going_on(job, event.at)) is not None:
            text = (
                f"{job.name} is {sorted(one.rules)} all the while, and incident {incident.id} was resolved as cleared"
            )
            yield Violation("no resolution is false", job.subject, event.at, text)


def _cleaned_up_late(record: Record, job: JobTruth, at: float) -> bool:
    """Whether it may have been over by then, and only its epilog was yet to run, for want of a slurmd."""
    daemons = {f"slurmd-{node}" for node in job.nodes}
    return any(
        job.end is not None and fault.began <= at <= job.end <= fault.ended + recovery(record)
        for fault in record.faults
        if fault.halts & daemons
    )


def _going_on(job: JobTruth, at: float) -> Condition | None:
    """What was wrong for a whole window before, and still was."""
    return next((one for one in job.conditions if one.since + one.window < at < one.ends(FOREVER)), None)


def what_is_over_is_resolved(record: Record) -> Iterator[Found]:
    """Once it is over, and that can be seen, the incident is resolved."""
    for job in record.jobs:
        for since, calm in _well(job, record.ended):
            for begin, end in quiet(record, lambda fault, job=job: _hides_end(fault, job), since, calm):
                if begin + _longest(job) + slack(record) > end:
                    continue
                yield ASKED
                if _active(record, job.subject, end):
                    text = f"{job.name} has been well, or over, for {end - since:.0f} s"
                    yield Violation("what is over is resolved", job.subject, end, text)


def _hides_end(fault: Happened, job: JobTruth) -> bool:
    return hides(fault, job) or bool(fault.halts & {"slurm", "kubernetes"})


def _longest(job: JobTruth) -> float:
    return max((one.window + one.after for one in job.conditions), default=0.0)


def _well(job: JobTruth, run: float) -> Iterator[Span]:
    """From when to when nothing was wrong with it."""
    ends: Mapping[float, float] = {one.ends(run): 0 for one in job.conditions}
    for until in ends:
        later = [one.since for one in job.conditions if one.since >= until]
        if until < run:
            yield until, min(later, default=run)
