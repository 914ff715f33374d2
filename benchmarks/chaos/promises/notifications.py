"""What is to be told is planned, sent and taken by those whom it is for: at least once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from dutycycle_alerter.settings.notify.people import Owners

from ..record import Record, StoredEvent, StoredIncident, StoredNotice
from .quiet import FOREVER, slack
from .violation import ASKED, Found, Occasion, Violation

_TO_USERS = (("mail", "owner"),)
_NEWS = {"opened": "opened", "reopened": "reopened", "severity changed": "escalated", "resolved": "resolved"}
"""What the routes of this site subscribe to, by the kind of the event: none of it is silent here."""
_FOR_THOSE_WHO_KNOW = frozenset({"reopened", "escalated"})
"""Whoever did not hear of an incident before hears instead that it has opened."""
_AT_ONCE = frozenset(Owners().at_once)
_NOBODY = "no email address of"
"""Why a message is given up whose reader has no address that one could mail to: the incident says so."""


def _due(record: Record, at: float) -> bool:
    """Whether what is told of that time has been told, where nothing was in the way."""
    return at < record.ended - slack(record) - record.scaled(900.0)


def every_change_is_planned(record: Record) -> Iterator[Found]:
    """For each opening, reopening, escalation and resolution there is a row of the outbox for the operators of each
    receiver, and for the job's user.
    """
    planned = rows_of(record)
    for number, events in changes_of(record).items():
        incident = record.incident[number]
        for receiver, audience in _readers(record, incident):
            mine = planned[number, receiver, audience]
            for news, due, told in _owed(record, events, mine, audience):
                yield Occasion(news)
                if told < due:
                    text = f"incident {number} {news} {due} times, planned for {audience} by {receiver} {told} times"
                    yield Violation("no notification is lost", incident.subject, events[-1].at, text)


def _owed(
    record: Record, events: Sequence[StoredEvent], mine: Sequence[StoredNotice], audience: str
) -> Iterator[tuple[str, int, int]]:
    """Of each kind of news, how often it was to be told to a reader by now, and how often it was planned."""
    # A user may hear of it later than it opened, and only then what becomes of it; one without an address never does.
    vain = {one.id for one in record.deliveries if one.failed_at is not None}
    heard = [one.at for one in mine if one.delivery not in vain]
    knew = min(heard, default=FOREVER) if audience == "owner" else 0.0
    found, happened = Counter(one.news for one in mine), Counter(_NEWS[one.kind] for one in events)
    for news in happened:
        due = [one for one in events if _NEWS[one.kind] == news and _due(record, one.at) and _is_for(one, audience)]
        due = [one for one in due if news == "opened" or one.at > knew]
        if due:
            instead = max(0, found["opened"] - happened["opened"]) if news in _FOR_THOSE_WHO_KNOW else 0
            yield news, len(due), found[news] + instead


def _is_for(event: StoredEvent, audience: str) -> bool:
    """Whether somebody is told of an escalation. To a user to whom the incident was critical before, another rule that
    is so now is news only where it is told at once.
    """
    for_whom, rule = event.data.get("audience"), event.data.get("rule")
    if for_whom is not None and for_whom != audience:
        return False
    return audience != "owner" or event.kind != "severity changed" or rule is None or rule in _AT_ONCE


def changes_of(record: Record) -> defaultdict[int, list[StoredEvent]]:
    """What is to be told of each incident."""
    found: defaultdict[int, list[StoredEvent]] = defaultdict(list)
    for event in record.events:
        if event.kind in _NEWS and record.incident[event.incident].kind != "report":
            found[event.incident].append(event)
    return found


def rows_of(record: Record) -> defaultdict[tuple[int, str, str], list[StoredNotice]]:
    """The rows of the outbox, by incident, receiver and audience."""
    found: defaultdict[tuple[int, str, str], list[StoredNotice]] = defaultdict(list)
    for notice in record.notices:
        if record.incident[notice.incident].kind != "report":
            found[notice.incident, notice.receiver, notice.audience].append(notice)
    return found


def _readers(record: Record, incident: StoredIncident) -> tuple[tuple[str, str], ...]:
    """Receivers and audiences that are told. A hang that no counter confirms is for operators alone."""
    unsure = incident.rule == "hung" and incident.severity != "critical"
    operators = tuple((receiver, "operators") for receiver in record.sinks)
    return operators + (_TO_USERS if incident.kind == "efficiency" and incident.user and not unsure else ())


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
        sink = record.sinks[one.receiver]
        if one.sent_at is None or not sink:
            continue
        yield ASKED
        if not any(key.startswith(one.mark) for key in keys[sink]):
            text = f"message {one.id} to {one.receiver} is called sent, and never came"
            yield Violation("no notification is lost", one.key, one.sent_at, text)


def what_arrived_is_known(record: Record) -> Iterator[Found]:
    """No message was sent of what the store does not know: of a change that was rolled back, or lost."""
    marks = {
        sink: tuple(one.mark for one in record.deliveries if record.sinks[one.receiver] == sink)
        for sink in record.sinks.values()
    }
    for taken in record.taken:
        if not taken.key:
            continue
        yield ASKED
        if not taken.key.startswith(marks[taken.sink]):
            yield Violation("no message is made up", taken.key, taken.at, f"{taken.sink} took what was never planned")
