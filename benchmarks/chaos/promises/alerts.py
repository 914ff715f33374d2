"""Alertmanager shows what is active, and nothing else."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from dutycycle_alerter.settings.notify import Alertmanager

from ..record import Firing, Look, Record
from .bounds import NOTICED
from .quiet import Span, evaluates, quiet, without
from .violation import ASKED, Found, Violation

_REFRESH = float(Alertmanager.model_fields["refresh"].default)
"""Seconds of the full-length run."""
_LAPSES = 5
"""Refreshes until an alert that nobody refreshes has ended there: four, and one that may have been under way."""


def alertmanager_shows_what_is_active(record: Record) -> Iterator[Found]:
    """Every incident that is active fires there, once, and none that is over.

    While an alerter's clock is wrong nothing is asked: by it beginnings and ends are told. What ended by one that was
    ahead may show as much longer.
    """
    hindered = quiet(record, lambda one: evaluates(one) or one.skews != 0, record.began, record.ended)
    # Whatever Alertmanager missed it has by the next refresh.
    spans = without(hindered, [(one.began, one.ended) for one in record.faults if "alertmanager" in one.halts])
    yield from _missing(record, spans)
    ahead = [(one.began, one.ended + one.skews) for one in record.faults if one.skews > 0]
    yield from _lasting(record, without(spans, ahead))


def _missing(record: Record, spans: Iterable[Span]) -> Iterator[Found]:
    """In two looks in a row: where one alert takes the place of another there may be none or both for a moment."""
    soon = NOTICED + record.scaled(2 * _REFRESH) + record.pass_interval
    for span in spans:
        for (before, _), (seen, looks) in pairwise(_seen(record, span, soon)):
            yield ASKED
            due = frozenset.intersection(*map(_active, looks))
            for number in sorted(due - {*seen.incidents, *before.incidents}):
                yield _violation(record, seen, number, "is active and does not fire")
            for number in sorted(due & _several(seen) & _several(before)):
                yield _violation(record, seen, number, "fires more than once")


def _lasting(record: Record, spans: Iterable[Span]) -> Iterator[Found]:
    late = NOTICED + record.scaled(_LAPSES * _REFRESH) + record.pass_interval
    for span in spans:
        for seen, looks in _seen(record, span, late):
            yield ASKED
            for number in sorted(set(seen.incidents) - frozenset().union(*map(_active, looks))):
                yield _violation(record, seen, number, "is not active and fires")


def _violation(record: Record, seen: Firing, number: int, what: str) -> Violation:
    incident = record.incident.get(number)
    subject = "an incident that the store lacks" if incident is None else incident.subject
    return Violation("Alertmanager shows what is active", subject, seen.at, f"incident {number} {what}")


def _seen(record: Record, span: Span, after: float) -> Iterator[tuple[Firing, Sequence[Look]]]:
    """What Alertmanager showed in a time, from so long after its begin on; with what the store held from as long before
    that was asked until just after it had answered.
    """
    times = [look.at for look in record.looks]
    since, until = span
    for seen in record.firing:
        asked = seen.at - seen.took
        end = bisect_right(times, seen.at) + 1
        if since + after <= asked and seen.at <= until and end <= len(times):
            yield seen, record.looks[bisect_left(times, asked - after) : end]


def _several(seen: Firing) -> frozenset[int]:
    return frozenset(number for number in seen.incidents if seen.incidents.count(number) > 1)


def _active(look: Look) -> frozenset[int]:
    return frozenset(number for _, _, numbers in look.active for number in numbers)
