"""A job's conditions and incidents, each judged once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import msgspec

from benchmarks.box.model import Condition, Fault, Job, SeenIncident, Truth
from benchmarks.box.scoring import record, timing
from benchmarks.box.scoring.matching import Extent, Found, cause_of, explains, find, named, outcome
from benchmarks.box.scoring.standing import standings
from benchmarks.box.scoring.story import Story, story
from benchmarks.box.scoring.wasted import truly_wasted

EXPLAINED = {
    "thermal": frozenset({"stalled", "uneven", "underused"}),
    "lost": frozenset({"idle", "partially_idle", "stalled", "uneven", "underused"}),
}
"""Rules that hold because of a fault, by its kind: what is told under them of such a GPU's job is nobody's mistake."""


def case_of(job: Job, seed: int, processes: Collection[str] = ()) -> record.Case:
    """`processes` are the nodes with an exporter's process of their own."""
    of_it = [node in processes for node in job.nodes]
    shown_by = "both" if len(set(of_it)) > 1 else "processes" if all(of_it) else "crowd"
    return record.Case(seed, job.number, job.mechanism, job.partition, job.mixed, shown_by)


def judge_job(
    case: record.Case,
    job: Job,
    truth: Truth,
    incidents: Sequence[SeenIncident],
    faults: Sequence[Fault],
    *,
    end: float,
) -> record.Score:
    """What was told of a job in a run that ended at `end`; `faults` are the run's."""
    known = (*truth.conditions, *truth.reports)
    begun = [condition for condition in known if job.start + condition.since < min(job.end, end)]
    extents = [_extent(condition, job, end) for condition in begun]
    stories = [(incident, story(incident, end)) for incident in incidents]
    conditions = []
    for condition, extent in zip(begun, extents, strict=True):
        own_class = condition.rule in timing.REPORTS
        found = find(extent, [told for incident, told in stories if (incident.kind == "report") == own_class])
        conditions.append(_condition(case, condition, extent, found, job, end))
    judged, standing = [], []
    for incident, told in stories:
        reports = incident.kind == "report"
        own = [extent for extent in extents if (extent.rules[0] in timing.REPORTS) == reports]
        otherwise = partial(_otherwise, incident, job, faults)
        about = explains(told, own)
        worth = outcome(told, about) if about else otherwise(told.openings[0], told.spans[0].rule)
        one = summed_up(case, incident, told, about, worth)
        wasted = truly_wasted(incident, told, job, truth)
        judged.append(msgspec.structs.replace(one, wasted=incident.wasted, truly_wasted=wasted))
        standing += standings(case, incident, told, own, otherwise)
    return record.Score(conditions=tuple(conditions), incidents=tuple(judged), standings=tuple(standing))


def _extent(condition: Condition, job: Job, end: float) -> Extent:
    last = min(job.start + condition.until, job.end)
    return Extent(
        since=job.start + condition.since,
        ended=last,
        opens_until=last + timing.opening(condition.rule, job.partition),
        until=last + timing.lingering(condition.rule, job.partition),
        earliest=_earliest(condition, job),
        rules=(condition.rule, *timing.BESIDE.get(condition.rule, ())),
        causes=condition.causes,
        must=expected(condition, job, end) == "must",
        main=condition.main,
    )


def expected(condition: Condition, job: Job, end: float) -> str:
    """Whether it must be told (`must`), may be (`may`), leaves no signal (`no signal`), shows in one for which there is
    no rule (`no rule`), is over before a rule is asked (`early`), or did not last in this run (`cut`).
    """
    if not condition.must:
        why = {"no signal": condition.silent, "no rule": condition.unruled, "early": condition.early}
        return next((name for name, reason in why.items() if reason), "may")
    return "must" if _in_time(condition, job, end) else "cut"


def _in_time(condition: Condition, job: Job, end: float) -> bool:
    return _earliest(condition, job) + timing.SETTLING <= end


def _earliest(condition: Condition, job: Job) -> float:
    """When its rule can open at first; what is reported is so at the job's end."""
    if condition.rule in timing.REPORTS:
        return job.end
    return job.start + timing.earliest(condition.rule, condition.since, job.partition)


def _condition(
    case: record.Case, condition: Condition, extent: Extent, found: Found, job: Job, end: float
) -> record.Condition:
    return record.Condition(
        case=case,
        rule=condition.rule,
        expected=expected(condition, job, end),
        reason=condition.silent or condition.unruled or condition.early,
        step=condition.step,
        since=extent.since,
        until=min(job.start + condition.until, job.end, end),
        found=found.found,
        named=found.named,
        beside=found.beside,
        delay=None if found.at is None else found.at - extent.earliest,
        first_word=None if found.first_word is None else found.first_word - extent.earliest,
        by_table=condition.by_table and _in_time(condition, job, end),
    )


def _otherwise(incident: SeenIncident, job: Job, faults: Sequence[Fault], at: float, rule: str) -> str:
    """What is worth that was said under a rule while nothing was wrong."""
    if incident.kind == "report":
        return "false" if rule in timing.REPORTED else "unjudged"
    if incident.severity == "info":
        return "unjudged"
    return "excused" if any(_explains(fault, job, at, rule) for fault in faults) else "false"


def _explains(fault: Fault, job: Job, at: float, rule: str) -> bool:
    """Whether a fault of one of the job's GPUs, then or shortly before, makes a rule hold: one that is held down is
    waited for, and one that is lost does nothing. Other faults leave a job here as it is.
    """
    if fault.gpu not in job.gpus or rule not in EXPLAINED.get(fault.kind, ()):
        return False
    until = job.end if fault.until is None else fault.until
    return fault.at <= at <= until + timing.opening(rule, job.partition)


def summed_up(
    case: record.Case, incident: SeenIncident, told: Story, about: Sequence[Extent], worth: str
) -> record.Incident:
    """The record of an incident that is about some conditions, or about none."""
    first = next((span for span in told.spans if span.causes), told.spans[0])
    last = told.spans[-1]
    return record.Incident(
        case=case,
        id=incident.id,
        kind=incident.kind,
        rule=incident.rule,
        causes=last.causes,
        severity=incident.severity,
        opened=told.openings[0],
        outcome=worth,
        named=any(named(told, extent) for extent in about),
        cause=cause_of(last, about) if about else "",
        first_cause=cause_of(first, about) if about else "",
        main_cause=cause_of(last, about, main=True) if about else "",
        reopened=told.reopened,
        reclassified=told.reclassified,
        recaused=told.recaused,
    )
