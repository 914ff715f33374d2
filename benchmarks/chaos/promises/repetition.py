"""Nobody is told twice, but where no acknowledgement arrived: how often that was is counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from ..record import Record, Taken
from .notifications import changes_of, rows_of
from .quiet import during, stalled
from .violation import ASKED, Excused, Found, Violation

_ANSWER = 5.0
"""Wall seconds that an answer may be under way (senders wait for four), or wait to be written down."""


def no_change_is_planned_twice(record: Record) -> Iterator[Found]:
    """Nobody has more rows of the outbox for an incident than there were changes of it."""
    changes, vain = changes_of(record), {one.id for one in record.deliveries if one.failed_at is not None}
    for (number, receiver, audience), mine in rows_of(record).items():
        # What was put aside, or never reached its reader, may be told again; and some are told whatever else changed.
        told = [one for one in mine if one.dropped is None and one.delivery not in vain and one.news != "updated"]
        yield ASKED
        if len(told) > len(changes[number]):
            text = f"incident {number} changed {len(changes[number])} times, planned for {audience} by {receiver} "
            subject = record.incident[number].subject
            yield Violation("no message comes twice", subject, told[-1].at, f"{text}{len(told)} times")


def no_message_comes_twice(record: Record) -> Iterator[Found]:
    """A message comes again only where its acknowledgement may have been lost on the way or could not be kept."""
    found: defaultdict[tuple[str, str, tuple[str, ...]], list[Taken]] = defaultdict(list)
    for taken in record.taken:
        if taken.key:
            found[taken.sink, taken.key, taken.to].append(taken)
    for (sink, key, _), copies in found.items():
        yield ASKED
        copies.sort(key=lambda one: one.at)
        for first, again in pairwise(copies):
            lost = _why_lost(record, first)
            if lost:
                yield Excused(lost)
                continue
            by = f" from {first.sender}" if first.sender else ""
            text = (
                f"{sink} took it{by} at {first.at:.1f} and {again.at - first.at:.1f} s later again, with no fault then"
            )
            yield Violation("no message comes twice", key, again.at, text)


def _why_lost(record: Record, first: Taken) -> str:
    """What was in the way of the acknowledgement of a message, or of keeping it: its receiver, the alerter that sent,
    or the store where that writes that it did. Empty: nothing.
    """
    since, until = first.at - _ANSWER, first.at + _ANSWER
    senders = {first.sender} if first.sender else _evaluated(record, since, until)
    lost = {first.sink, "database", *senders}
    faults = [one.name for one in during(record, since, until) if one.halts & lost]
    return ", ".join(faults) or ("a stall of the machine" if stalled(record, since, until) else "")


def _evaluated(record: Record, since: float, until: float) -> set[str]:
    """Who had the lease, and so sends, as far as anybody saw it; else it may have been either."""
    holders = {look.holder.partition("#")[0] for look in record.looks if since <= look.at <= until and look.holder}
    return holders or {"a", "b"}
