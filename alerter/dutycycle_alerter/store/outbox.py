"""The notices of the outbox: written for events, read for those who tell. Deliveries are `store/deliveries.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from dutycycle_alerter.incidents.model import Event, EventKind, Incident, OpenRule, Severity, State
from dutycycle_alerter.notify.gathering import NOT_THEIRS, UNSUBSCRIBED, Waiting
from dutycycle_alerter.notify.model import Recipient, To
from dutycycle_alerter.notify.owners import UNCOUNTED, Waste, is_critical
from dutycycle_alerter.notify.planning import Notice
from dutycycle_alerter.notify.routing import LOUD, Address
from dutycycle_alerter.store.in_parts import in_parts
from dutycycle_alerter.store.incident_rows import event_from_row, from_row, to_rule
from dutycycle_alerter.store.schema import delivery, event, incident, mute, notice
from dutycycle_alerter.views import OutboxDepth

_INSERT = sa.insert(notice)
# As the index says it: SQLite knows it by these words.
_WAITS = sa.and_(notice.c.delivery_id.is_(None), notice.c.dropped.is_(None))
_UNDELIVERED = sa.and_(delivery.c.sent_at.is_(None), delivery.c.failed_at.is_(None))
_ACTIVE = incident.c.state != sa.literal_column(f"'{State.RESOLVED.value}'")
_LOUD = sorted(news.value for news in LOUD)
_REACHES = (notice.c.news.in_(_LOUD), notice.c.dropped.is_(None), delivery.c.failed_at.is_(None))
"""That a notice brings an incident to somebody's attention, or will."""
_SILENT = (EventKind.TOLD.value, EventKind.NOT_TOLD.value)


@dataclass(frozen=True, slots=True)
class Unaware:
    """An active incident whose user was not told by a receiver."""

    incident_id: int
    user: str
    rules: tuple[OpenRule, ...]


def recipient_of(row: Any) -> Recipient:
    """Of a row with `audience` and `user`."""
    return Recipient(To(row.audience), row.user)


def add(connection: sa.Connection, notices: Iterable[Notice]) -> None:
    """Put notices into the outbox."""
    rows = [
        {
            "receiver": item.receiver,
            "audience": item.to.to.value,
            "user": item.to.user,
            "bundle": item.bundle,
            "incident_id": item.incident_id,
            "news": item.news.value,
            "at": item.at,
            "actor": item.actor,
            "text": item.text,
            "due_at": item.due_at,
            "digest": item.digest,
        }
        for item in notices
    ]
    if rows:
        connection.execute(_INSERT, rows)


def has_news(connection: sa.Connection, after: int) -> bool:
    """Whether anything happened after an event that may be told."""
    query = sa.select(event.c.id).where(event.c.id > after, event.c.kind.not_in(_SILENT)).limit(1)
    return connection.execute(query).first() is not None


def concerned(connection: sa.Connection, incident_ids: Collection[int]) -> dict[int, Incident]:
    """The incidents with these numbers; those that there are not are left out."""
    found: dict[int, Incident] = {}
    for numbers in in_parts(incident_ids):
        query = sa.select(incident).where(incident.c.id.in_(numbers))
        found |= {row.id: from_row(row) for row in connection.execute(query)}
    return found


def told(connection: sa.Connection, incident_ids: Collection[int]) -> dict[int, set[Address]]:
    """Who knows of each incident, or will: a notice that says so was delivered, or waits."""
    columns = notice.c
    found: defaultdict[int, set[Address]] = defaultdict(set)
    for numbers in in_parts(incident_ids):
        query = (
            sa.select(columns.incident_id, columns.receiver, columns.audience, columns.user)
            .outerjoin(delivery, delivery.c.id == columns.delivery_id)
            .where(columns.incident_id.in_(numbers), *_REACHES)
            .distinct()
        )
        for row in connection.execute(query):
            found[row.incident_id].add((row.receiver, recipient_of(row)))
    return found


def unheard(
    connection: sa.Connection, incident_ids: Collection[int], *, before: int
) -> dict[int, dict[Address, list[Event]]]:
    """By which events, before that number, each incident became worse after its user last heard of it, by whom they are
    told; oldest first.
    """
    columns = notice.c
    found: defaultdict[int, dict[Address, list[Event]]] = defaultdict(dict)
    for numbers in in_parts(incident_ids):
        last = (
            sa.select(
                columns.incident_id,
                columns.receiver,
                columns.audience,
                columns.user,
                sa.func.max(columns.at).label("at"),
            )
            .outerjoin(delivery, delivery.c.id == columns.delivery_id)
            .where(columns.incident_id.in_(numbers), columns.audience == To.OWNER.value, *_REACHES)
            .group_by(columns.incident_id, columns.receiver, columns.audience, columns.user)
            .subquery()
        )
        query = (
            sa.select(event, last.c.receiver, last.c.audience, last.c.user)
            .join(last, sa.and_(last.c.incident_id == event.c.incident_id, last.c.at < event.c.at))
            .where(event.c.kind == EventKind.SEVERITY_CHANGED.value, event.c.id < before)
            .order_by(event.c.id)
        )
        for row in connection.execute(query):
            address = row.receiver, recipient_of(row)
            found[row.incident_id].setdefault(address, []).append(event_from_row(row))
    return found


def unaware(connection: sa.Connection, receiver: str) -> list[Unaware]:
    """Incidents of jobs that are not over, of which the receiver was not to tell the user yet; or could not, and they
    became worse since. Those that a person takes care of are among them, those that are snoozed are not.
    """
    worse = sa.select(event.c.id).where(
        event.c.incident_id == notice.c.incident_id,
        event.c.kind == EventKind.SEVERITY_CHANGED.value,
        event.c.at > delivery.c.failed_at,
    )
    knows = (
        sa.select(notice.c.id)
        .outerjoin(delivery, delivery.c.id == notice.c.delivery_id)
        .where(
            notice.c.incident_id == incident.c.id,
            notice.c.receiver == receiver,
            notice.c.audience == To.OWNER.value,
            notice.c.user == incident.c.user,
            notice.c.news.in_(_LOUD),
            notice.c.dropped.is_(None),
            sa.or_(delivery.c.failed_at.is_(None), ~worse.exists()),
        )
    )
    query = (
        sa.select(incident.c.id, incident.c.user, incident.c.rules)
        .where(
            _ACTIVE,
            incident.c.kind == "efficiency",
            incident.c.state != State.SNOOZED.value,
            incident.c.user != "",
            ~knows.exists(),
        )
        .order_by(incident.c.id)
    )
    return [Unaware(row.id, row.user, tuple(map(to_rule, row.rules))) for row in connection.execute(query)]


def wasted(connection: sa.Connection, users: Collection[str], since: float) -> defaultdict[str, float]:
    """Return the GPU-seconds that jobs of each of these users wasted within incidents after `since` (wall seconds).

    Waste that was closed as intended or excluded does not count.
    """
    sums: defaultdict[str, float] = defaultdict(float)
    columns = incident.c
    for names in in_parts(users):
        query = sa.select(
            columns.user, columns.started_at, columns.known_at, columns.resolved_at, columns.wasted
        ).where(
            columns.user.in_(names),
            columns.kind == "efficiency",
            sa.or_(columns.resolved_at.is_(None), columns.resolved_at > since),
            sa.or_(columns.resolution.is_(None), columns.resolution.not_in(UNCOUNTED)),
        )
        for row in connection.execute(query):
            until = row.known_at if row.resolved_at is None else row.resolved_at
            sums[row.user] += Waste(row.started_at, until, row.wasted).after(since)
    return sums


def muted(connection: sa.Connection) -> set[tuple[str, str]]:
    """(receiver, user) of users who unsubscribed."""
    return {(row.receiver, row.user) for row in connection.execute(sa.select(mute.c.receiver, mute.c.user))}


def first_due(connection: sa.Connection, receiver: str) -> dict[str, float]:
    """When the first of the receiver's notices that wait is due, of each digest and (empty) of none."""
    columns = notice.c
    query = (
        sa.select(columns.digest, sa.func.min(columns.due_at).label("due_at"))
        .where(columns.receiver == receiver, _WAITS)
        .group_by(columns.digest)
    )
    return {row.digest: row.due_at for row in connection.execute(query)}


def waiting(connection: sa.Connection, receiver: str, *, most: int) -> list[Waiting]:
    """The receiver's notices that wait, those that are due first; of very many some, of each recipient."""
    columns = notice.c
    # So that what waits for one keeps nobody else's from being seen.
    place = sa.func.row_number().over(
        partition_by=(columns.audience, columns.user), order_by=(columns.due_at, columns.id)
    )
    query = (
        sa.select(
            columns.id,
            columns.audience,
            columns.user,
            columns.bundle,
            columns.incident_id,
            columns.due_at,
            columns.digest,
            incident.c.state,
            incident.c.severity,
            incident.c.rules,
            incident.c.kind,
            incident.c.user.label("job_user"),
        )
        .join(incident, incident.c.id == columns.incident_id)
        .where(columns.receiver == receiver, _WAITS)
        .order_by(place, columns.due_at, columns.id)
        .limit(most)
    )
    found = sorted(connection.execute(query), key=lambda row: (row.due_at, row.id))
    return [
        Waiting(
            id=row.id,
            to=(to := recipient_of(row)),
            bundle=row.bundle,
            incident_id=row.incident_id,
            due_at=row.due_at,
            digest=row.digest,
            state=State(row.state),
            critical=_is_critical(row, to),
            is_report=row.kind == "report",
            user=row.job_user,
        )
        for row in found
    ]


def drop(connection: sa.Connection, reasons: Mapping[int, str]) -> None:
    """Put notices aside that nobody needs to be told any more. One whose incident is open again by now stays, and so
    does that of a user who hears only of what is critical, which it is by now.
    """
    states = [State.RESOLVED.value, State.SNOOZED.value]
    of_it = incident.c.id == notice.c.incident_id
    over = sa.select(incident.c.id).where(of_it, incident.c.state.in_(states))
    others = sa.select(incident.c.id).where(of_it, incident.c.user != notice.c.user)
    for reason in sorted(set(reasons.values())):
        for numbers in in_parts([number for number, said in reasons.items() if said == reason]):
            mine = sa.and_(notice.c.id.in_(numbers), notice.c.delivery_id.is_(None))
            holds: sa.ColumnElement[bool] = over.exists()
            if reason == UNSUBSCRIBED:
                holds = notice.c.id.in_(_not_critical(connection, mine))
            elif reason == NOT_THEIRS:
                holds = others.exists()
            connection.execute(sa.update(notice).where(mine, holds).values(dropped=reason))


def _not_critical(connection: sa.Connection, those: sa.ColumnElement[bool]) -> list[int]:
    """Those of some notices whose incident is not critical for the user of the job."""
    columns = incident.c
    query = (
        sa.select(notice.c.id, columns.severity, columns.rules)
        .join(incident, columns.id == notice.c.incident_id)
        .where(those)
    )
    return [row.id for row in connection.execute(query) if not _is_critical(row, Recipient(To.OWNER))]


def _is_critical(row: Any, to: Recipient) -> bool:
    """Whether an incident is critical for somebody, of a row with its `severity` and `rules`."""
    rules = [to_rule(rule) for rule in row.rules] if to.to is To.OWNER else []
    return is_critical(rules, Severity(row.severity))


def depths(connection: sa.Connection) -> dict[str, OutboxDepth]:
    """What waits for each receiver: notices in no message yet, and those in messages that were not delivered."""
    found: dict[str, OutboxDepth] = {}
    counted = sa.select(notice.c.receiver, sa.func.count(), sa.func.min(notice.c.due_at)).group_by(notice.c.receiver)
    together = counted.join(delivery, delivery.c.id == notice.c.delivery_id).where(_UNDELIVERED)
    for query in (counted.where(_WAITS), together):
        for receiver, number, due_at in connection.execute(query):
            known = found.get(receiver, OutboxDepth(0, due_at))
            found[receiver] = OutboxDepth(known.notices + number, min(known.due_at, due_at))
    columns = delivery.c
    failed = sa.select(columns.receiver, columns.error).where(_UNDELIVERED, columns.error != "").order_by(columns.id)
    for receiver, error in connection.execute(failed):
        if receiver in found:
            found[receiver] = replace(found[receiver], error=error)
    return found
