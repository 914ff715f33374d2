"""From what happened to an incident to what is told of it, to whom and when. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType

from dutycycle_alerter.incidents.audience import Audience, critical_for_owner
from dutycycle_alerter.incidents.model import Event, EventKind, Incident, Severity, State
from dutycycle_alerter.notify.model import OPERATORS, Recipient
from dutycycle_alerter.notify.routing import LOUD, Address, Destination, Routing, rules_of
from dutycycle_alerter.settings.notify import News

_NEWS = {
    EventKind.OPENED: News.OPENED,
    EventKind.REOPENED: News.REOPENED,
    EventKind.SEVERITY_CHANGED: News.ESCALATED,  # it only ever rises
    EventKind.RESOLVED: News.RESOLVED,
    EventKind.TOLD: None,
    EventKind.NOT_TOLD: None,
}

_MAY_OPEN = (EventKind.PRIMARY_CHANGED, EventKind.SNOOZE_EXPIRED)
"""Updates with which an incident may become somebody's for the first time."""

WAKING = frozenset({EventKind.SNOOZE_EXPIRED, EventKind.ACKNOWLEDGED})
"""What ends a snooze: who may not have heard meanwhile that it became worse hears so then."""

_UNBROKEN = {State.SNOOZED: frozenset({News.RESOLVED}), State.ACKNOWLEDGED: frozenset({News.RESOLVED, News.ESCALATED})}
"""What the alerter by itself says of an incident that somebody wants to be quiet, or takes care of."""

_LONGEST = 1000
"""Characters of an event's text that go into a message."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One piece of news of one incident for one recipient of one receiver: a row of the outbox.

    `bundle` is what comes in one message, `due_at` when (Unix seconds) at the earliest, `digest` in which digest.
    """

    receiver: str
    to: Recipient
    bundle: str
    incident_id: int
    news: News
    at: float
    text: str
    actor: str
    due_at: float
    digest: str


def news_of(event: Event) -> News | None:
    """What an event is to those who are told; None where it is nothing to them."""
    return _NEWS.get(event.kind, News.UPDATED)


def plan(
    incident: Incident,
    events: Iterable[Event],
    told: Set[Address],
    routing: Routing,
    *,
    now: float,
    unheard: Mapping[Address, Sequence[Event]] = MappingProxyType({}),
) -> list[Notice]:
    """What is to be told of events of an incident, which is as it is after them. `told` are those who know of it, or
    will: a notice that says so was sent, or waits. `unheard` is by which events it became worse before these without
    some of them hearing of it.

    Users of jobs hear here only what became of an incident that they know of.
    """
    news = [(kind, event) for event in events if (kind := news_of(event)) is not None]
    if not news:
        return []
    where = {destination.address: destination for destination in routing.operators(incident)}
    for address in told - where.keys():
        name, to = address
        if to.user and to.user != incident.user:
            continue  # it was taken for theirs
        destination = (routing.owner(incident, name) if to.user else None) or routing.former(address)
        if destination is not None:
            where[address] = destination
    return [
        notice_of(destination, incident, kind, event, routing, now=now)
        for address, destination in where.items()
        for kind, event in _told(
            destination,
            incident,
            _heard(news, destination.to, incident, routing, unheard.get(address, ())),
            known=address in told,
        )
    ]


def opening(destination: Destination, incident: Incident, text: str, routing: Routing, *, now: float) -> Notice:
    """Tell somebody of an incident for the first time, though nothing has just happened to it."""
    event = Event(now, EventKind.OPENED, text)
    return notice_of(destination, incident, News.OPENED, event, routing, now=now)


def notice_of(
    destination: Destination, incident: Incident, news: News, event: Event, routing: Routing, *, now: float
) -> Notice:
    """The row of the outbox."""
    due_at, digest = routing.due_at(destination, now)
    return Notice(
        receiver=destination.receiver.name,
        to=destination.to,
        bundle=destination.bundle(incident),
        incident_id=incident.id,
        news=news,
        at=event.at,
        text=event.text[:_LONGEST],
        actor=event.actor,
        due_at=due_at,
        digest=digest,
    )


def _heard(
    news: Sequence[tuple[News, Event]], to: Recipient, incident: Incident, routing: Routing, unheard: Iterable[Event]
) -> list[tuple[News, Event]]:
    """News as they are to somebody. For the user of a job it is worse where a rule is critical for them; where the
    incident was so before, where one joins that is told at once. What became worse while they were not to be disturbed
    they hear when that is over, unless they ended it themselves.
    """
    if to == OPERATORS:
        return [(kind, event) for kind, event in news if event.data.get("audience") != Audience.OWNER.value]
    worse = critical_for_owner(rules_of(incident))
    heard: list[tuple[News, Event]] = []
    for kind, event in news:
        is_worse = kind is not News.ESCALATED or worse & _named(event, worse, routing)
        heard.append((kind if is_worse else News.UPDATED, event))
        if event.kind in WAKING and event.actor != to.user and incident.state.active:
            late = [one for one in unheard if worse & _named(one, worse, routing)]
            heard += [(News.ESCALATED, one) for one in late[-1:]]
    return heard


def _named(event: Event, rules: Set[str], routing: Routing) -> Set[str]:
    """By which of these rules it is worse for the user: any, or the one that the event names, if it is told at once;
    none where it is so for operators alone.
    """
    if event.data.get("audience") == Audience.OPERATORS.value:
        return frozenset()
    rule = event.data.get("rule")
    return rules if rule is None else routing.at_once & {rule}


def _told(
    destination: Destination, incident: Incident, news: Iterable[tuple[News, Event]], *, known: bool
) -> Iterator[tuple[News, Event]]:
    wanted = destination.news
    if incident.kind == "report":
        wanted -= {News.RESOLVED}  # it is filed as it is
    for kind, event in news:
        told = _as_wanted(kind, event, incident, wanted, known=known)
        woken = event.kind is EventKind.SNOOZE_EXPIRED and incident.state.active
        if told is None and known and woken and destination.to == OPERATORS:
            told = News.OPENED if News.OPENED in wanted else None  # until now nobody wanted to hear of it
        unbroken = _UNBROKEN.get(incident.state)
        if told is None or (unbroken is not None and not event.actor and kind not in unbroken):
            continue
        known = known or told in LOUD
        yield told, event


def _as_wanted(kind: News, event: Event, incident: Incident, wanted: Set[News], *, known: bool) -> News | None:
    """As what the event is told, if it is."""
    if not known and wanted & LOUD:
        if kind not in LOUD and not (event.kind in _MAY_OPEN and incident.state.active):
            return None
        kind = News.OPENED if News.OPENED in wanted or kind not in LOUD else kind
        if kind not in wanted and News.ESCALATED in wanted and incident.severity is Severity.CRITICAL:
            kind = News.ESCALATED  # it began as bad as it can be
    return kind if kind in wanted else None
