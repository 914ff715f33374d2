"""What is told reaches those whom it is for: at least once, and twice only where no acknowledgement arrived."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from ..record import Record, Taken
from .quiet import during, slack, stalled
from .violation import ASKED, Found, Violation

_TO_OPERATORS = (("mail", "operators"), ("chat", "operators"))
_TO_USERS = (("mail", "owner"),)
_SINKS = {"mail": "mail", "chat": "slack"}
_NEWS = ("opened", "resolved")
_NOBODY = "no e-mail address of"
"""Why a message is given up whose reader has no address that one could mail to: the incident says so."""
_ANSWER = 10.0
"""Wall seconds that an answer may be under way, or wait to be written down."""


def _due(record: Record, at: float) -> bool:
    """Whether what is told of that time has been told, where nothing was in the way."""
    return at < record.ended - slack(record) - record.scaled(900.0)


def every_change_is_planned(record: Record) -> Iterator[Found]:
    """For each opening and each resolution there is a row of the outbox for the operators of each receiver, and for
    the job's user.
    """
    planned = Counter((one.incident, one.receiver, one.audience, one.news) for one in record.notices)
    happened: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    for event in record.events:
        if event.kind in _NEWS and record.incident[event.incident].kind != "report" and _due(record, event.at):
            happened[event.incident, event.kind].append(event.at)
    for (number, news), times in happened.items():
        incident = record.incident[number]
        users = _TO_USERS if incident.kind == "efficiency" and incident.user else ()
        for receiver, audience in (*_TO_OPERATORS, *users):
            found = planned[number, receiver, audience, news]
            yield ASKED
            if found < len(times):
                text = (
                    f"incident {number} {news} {len(times)} times, planned for {audience} by {receiver} {found} times"
                )
                yield Violation("no notification is lost", incident.subject, times[-1], text)


def every_notice_is_sent(record: Record) -> Iterator[Found]:
    """Whatever was to be told is delivered in the end."""
    for notice in record.notices:
        yield ASKED
        if notice.delivery is None and notice.dropped is None and _due(record, notice.at):
            subject = record.incident[notice.incident].subject
            text = f"notice {notice.id} ({notice.news}, {notice.receiver}) waits still"
            yield Violation("no notification is lost", subject, record.ended, text)
    for one in record.deliveries:
        if one.sent_at is None and _due(record, one.at) and _NOBODY not in one.error:
            text = f"message {one.id} to {one.receiver}: {one.attempts} attempts; {one.error or 'no error'}"
            yield Violation("no notification is lost", one.key, one.at, text)


def what_is_sent_arrived(record: Record) -> Iterator[Found]:
    """What the store calls sent was taken by the receiver."""
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for taken in record.taken:
        keys[taken.sink].append(taken.key)
    for one in record.deliveries:
        if one.sent_at is not None:
            yield ASKED
        arrived = any(key.startswith(one.mark) for key in keys[_SINKS[one.receiver]])
        if one.sent_at is not None and not arrived:
            text = f"message {one.id} to {one.receiver} is called sent, and never came"
            yield Violation("no notification is lost", one.key, one.sent_at, text)


def what_arrived_is_known(record: Record) -> Iterator[Found]:
    """No message was sent of what the store does not know: of a change that was rolled back, or lost."""
    marks = {
        sink: tuple(one.mark for one in record.deliveries if _SINKS[one.receiver] == sink) for sink in _SINKS.values()
    }
    for taken in record.taken:
        if not taken.key:
            continue
        yield ASKED
        if not taken.key.startswith(marks[taken.sink]):
            yield Violation("no message is made up", taken.key, taken.at, f"{taken.sink} took what was never planned")


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
            if not _answer_may_be_lost(record, sink, first.at):
                text = (
                    f"{sink} took it at {first.at:.1f} and {again.at - first.at:.1f} s later again, with no fault then"
                )
                yield Violation("no message comes twice", key, again.at, text)


def _answer_may_be_lost(record: Record, sink: str, at: float) -> bool:
    lost = {sink, "evaluation", "database", "a", "b"}
    since, until = at - _ANSWER, at + _ANSWER
    return any(fault.halts & lost for fault in during(record, since, until)) or stalled(record, since, until)
