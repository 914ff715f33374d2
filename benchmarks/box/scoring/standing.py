"""What was said under each rule that stood over an incident, judged by the time at which it began to be said.

An incident may be right when it opens and wrong in what it becomes, or the other way round: each rule answers for its
own time, and so does each opening.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from benchmarks.box.model import SeenIncident
from benchmarks.box.scoring import record
from benchmarks.box.scoring.matching import Extent
from benchmarks.box.scoring.story import Span, Story

Otherwise = Callable[[float, str], str]
"""What is worth that is about nothing, by when it was said under which rule: `false`, `excused` or `unjudged`."""


def standings(
    case: record.Case, incident: SeenIncident, told: Story, extents: Sequence[Extent], otherwise: Otherwise
) -> list[record.Standing]:
    """One record for each rule that stood over an incident without a break, and for each of its openings."""
    found = []
    for (opened, rule), spans in groupby(told.spans, key=lambda span: (span.opened, span.rule)):
        first, *more = spans
        found.append(
            record.Standing(
                case=case,
                id=incident.id,
                kind=incident.kind,
                rule=rule,
                causes=first.causes,
                severity=incident.severity,
                since=first.start,
                until=more[-1].end if more else first.end,
                first=opened == told.spans[0].opened and first.start == opened,
                outcome=_outcome(_began(told, first), first.start, rule, extents) or otherwise(first.start, rule),
            )
        )
    return found


def _began(told: Story, span: Span) -> tuple[float, ...]:
    """When a rule that stands over an incident began to hold: as it joined it, where that is known. Else that was
    either as it took its place, or as the incident opened: who holds from then on joins without a word.
    """
    joined = [at for at, rule in told.joined if rule == span.rule and span.opened <= at <= span.start]
    return tuple(joined[-1:]) or (span.start, span.opened)


def _outcome(began: Sequence[float], stood: float, rule: str, extents: Sequence[Extent]) -> str:
    """Of a rule that `began` to hold, and stood over the incident from `stood` on. Empty where nothing was wrong."""
    rightly = [one for one in extents if rule in one.rules and any(one.opened_by(at, rule) for at in began)]
    if rightly:
        return "true" if any(extent.must for extent in rightly) else "allowed"
    return "other rule" if any(extent.opened_by(stood, rule) for extent in extents) else ""
