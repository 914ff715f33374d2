"""Deliveries: messages that were put together from notices, their attempts, and what became of them."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dutycycle_alerter.incidents.model import Severity, State
from dutycycle_alerter.notify.gathering import Portion
from dutycycle_alerter.notify.model import OPERATORS, Item, Parcel, ParcelKind, Recipient, Telling
from dutycycle_alerter.notify.routing import LOUD
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.store.in_parts import in_parts
from dutycycle_alerter.store.outbox import concerned, recipient_of
from dutycycle_alerter.store.schema import delivery, incident, notice, thread

LISTED = 1000
"""Incidents that a digest tells of; of the others it knows the number."""

PENDING = sa.and_(delivery.c.sent_at.is_(None), delivery.c.failed_at.is_(None))
_LOUD = sorted(news.value for news in LOUD)


@dataclass(frozen=True, slots=True)
class Pending:
    """A message that is still to be delivered."""

    id: int
    to: Recipient
    at: float
    attempts: int
    next_at: float


@dataclass(frozen=True, slots=True)
class Begun:
    """An attempt: what is to be sent, the incidents of which it brings something loud, and whether an earlier attempt
    reached somebody.
    """

    parcel: Parcel
    loud: tuple[int, ...]
    reached: bool


def put(connection: sa.Connection, receiver: str, portions: Iterable[Portion], now: float) -> None:
    """Make messages of portions."""
    for portion in portions:
        content = {"goes_on": True} if portion.goes_on else {}
        number = _insert(connection, receiver, portion.to, portion.kind, secrets.token_hex(16), now, content)
        for numbers in in_parts([item.id for item in portion.notices]):
            mine = sa.and_(notice.c.id.in_(numbers), notice.c.delivery_id.is_(None))
            connection.execute(sa.update(notice).where(mine).values(delivery_id=number))


def put_report(connection: sa.Connection, receiver: str, key: str, report: tuple[float, float], now: float) -> bool:
    """Make a report's message, once for its key. Returns whether it is new."""
    if has_report(connection, key):
        return False
    _insert(connection, receiver, OPERATORS, ParcelKind.REPORT, key, now, {"report": list(report)})
    return True


def has_report(connection: sa.Connection, key: str) -> bool:
    """Whether there is a message with this key."""
    return connection.execute(sa.select(delivery.c.id).where(delivery.c.key == key)).first() is not None


def pending(connection: sa.Connection, receiver: str) -> list[Pending]:
    """The receiver's messages that are still to be delivered: those that were tried least first, then the oldest."""
    return [_pending(row) for row in connection.execute(_waiting_messages(receiver))]


def due(connection: sa.Connection, receiver: str, now: float, *, longest: float, limit: int) -> list[Pending]:
    """Those of them that may be tried now. Whose time is further ahead than the `longest` wait is: a clock was set."""
    at = delivery.c.next_at
    query = _waiting_messages(receiver).where(sa.or_(at <= now, at > now + longest)).limit(limit)
    return [_pending(row) for row in connection.execute(query)]


def begin(connection: sa.Connection, number: int, *, next_at: float) -> Begun | None:
    """Count an attempt, and give what is to be sent. None where nothing is left of it: its incidents were deleted, or
    somebody delivered it meanwhile.
    """
    columns = delivery.c
    row = connection.execute(sa.select(delivery).where(columns.id == number, PENDING)).first()
    if row is None:
        return None
    kind = ParcelKind(row.kind)
    report = row.content.get("report")
    items, loud, left_out = _items(connection, row)
    if not items and report is None:
        fail(connection, number, row.at, "its incidents were deleted")
        return None
    values = {"attempts": row.attempts + 1, "next_at": next_at}
    connection.execute(sa.update(delivery).where(columns.id == number).values(values))
    parcel = Parcel(
        key=row.key,
        kind=kind,
        to=recipient_of(row),
        items=items,
        at=row.at,
        attempt=row.attempts + 1,
        report=None if report is None else (report[0], report[1]),
        left_out=left_out,
        settled=frozenset((*row.content.get("taken", ()), *row.content.get("refused", ()))),
    )
    return Begun(parcel, loud, reached=bool(row.content.get("taken")))


def settle(connection: sa.Connection, number: int, taken: Collection[str], refused: Collection[str]) -> None:
    """Keep which addresses have it by now, and which never will."""
    if not taken and not refused:
        return
    mine = delivery.c.id == number
    content = dict(connection.execute(sa.select(delivery.c.content).where(mine)).scalar_one())
    content["taken"] = list(dict.fromkeys((*content.get("taken", ()), *taken)))
    content["refused"] = list(dict.fromkeys((*content.get("refused", ()), *refused)))
    connection.execute(sa.update(delivery).where(mine).values(content=content))


def finish(connection: sa.Connection, number: int, now: float) -> bool:
    """It was delivered. False where that is known."""
    where = sa.and_(delivery.c.id == number, PENDING)
    return connection.execute(sa.update(delivery).where(where).values(sent_at=now, error="")).rowcount == 1


def postpone(connection: sa.Connection, number: int, next_at: float, error: str) -> None:
    """It was not delivered, and is tried again at a time."""
    values = {"next_at": next_at, "error": error}
    connection.execute(sa.update(delivery).where(delivery.c.id == number, PENDING).values(values))


def fail(connection: sa.Connection, number: int, now: float, error: str) -> None:
    """It is not tried again."""
    values = {"failed_at": now, "error": error}
    connection.execute(sa.update(delivery).where(delivery.c.id == number, PENDING).values(values))


def keep_threads(
    connection: sa.Connection,
    receiver: str,
    to: Recipient,
    references: Mapping[int, Mapping[str, str]],
    now: float,
) -> None:
    """What the receiver wants to keep of each incident, instead of what it kept before."""
    if not references:
        return
    mine = _mine(receiver, to)
    for numbers in in_parts(references):
        connection.execute(sa.delete(thread).where(*mine, thread.c.incident_id.in_(numbers)))
    key = {"receiver": receiver, "audience": to.to.value, "user": to.user, "told_at": now}
    rows = [{"incident_id": number, "reference": dict(kept), **key} for number, kept in references.items()]
    connection.execute(sa.insert(thread), rows)


def abandon(connection: sa.Connection, receivers: Collection[str], now: float) -> None:
    """Give up what waits for receivers that there are no more: all but these."""
    others = notice.c.receiver.not_in(list(receivers))
    waits = sa.and_(notice.c.delivery_id.is_(None), notice.c.dropped.is_(None))
    connection.execute(sa.update(notice).where(others, waits).values(dropped="the receiver is not configured any more"))
    values = {"failed_at": now, "error": "the receiver is not configured any more"}
    connection.execute(sa.update(delivery).where(delivery.c.receiver.not_in(list(receivers)), PENDING).values(values))


def forget(connection: sa.Connection, before: float, *, limit: int) -> int:
    """Delete messages that were put together before a time and wait no more, and whose incidents are all resolved: of
    those that are not, it must be known who was told. Returns how many.
    """
    open_ones = (
        sa.select(notice.c.id)
        .join(incident, incident.c.id == notice.c.incident_id)
        .where(notice.c.delivery_id == delivery.c.id, incident.c.state != State.RESOLVED.value)
    )
    over = sa.or_(delivery.c.sent_at.is_not(None), delivery.c.failed_at.is_not(None))
    old = sa.and_(delivery.c.at < before, over, ~open_ones.exists())
    numbers = connection.execute(sa.select(delivery.c.id).where(old).limit(limit)).scalars().all()
    if numbers:
        connection.execute(sa.delete(notice).where(notice.c.delivery_id.in_(numbers)))
        connection.execute(sa.delete(delivery).where(delivery.c.id.in_(numbers)))
    return len(numbers)


def _insert(
    connection: sa.Connection,
    receiver: str,
    to: Recipient,
    kind: ParcelKind,
    key: str,
    now: float,
    content: Mapping[str, Any],
) -> int:
    values = {
        "key": key,
        "receiver": receiver,
        "audience": to.to.value,
        "user": to.user,
        "kind": kind.value,
        "at": now,
        "attempts": 0,
        "next_at": now,
        "error": "",
        "content": dict(content),
    }
    return int(connection.execute(sa.insert(delivery).values(values).returning(delivery.c.id)).scalar_one())


def _items(connection: sa.Connection, row: Any) -> tuple[tuple[Item, ...], tuple[int, ...], int]:
    """The incidents of a message, the worst first; those with something loud; and how many are only counted."""
    columns = notice.c
    query = (
        sa.select(columns.incident_id, columns.news, columns.at, columns.text, columns.actor, incident.c.severity)
        .join(incident, incident.c.id == columns.incident_id)
        .where(columns.delivery_id == row.id)
        .order_by(columns.id)
    )
    tellings: defaultdict[int, list[Telling]] = defaultdict(list)
    ranks: dict[int, int] = {}
    for item in connection.execute(query):
        tellings[item.incident_id].append(Telling(News(item.news), item.at, item.text, item.actor))
        ranks[item.incident_id] = Severity(item.severity).rank
    loud = tuple(number for number, parts in tellings.items() if any(part.news in LOUD for part in parts))
    heard = set(loud)
    order = sorted(tellings, key=lambda number: (number not in heard, -ranks[number], number))
    listed = order if row.kind != ParcelKind.DIGEST.value else order[:LISTED]
    # Of what is only counted nobody was told.
    loud = tuple(number for number in listed if number in heard)
    to = recipient_of(row)
    threads = threads_of(connection, row.receiver, listed)
    known = concerned(connection, listed)
    reasons = _reasons(connection, row.receiver, to, listed)
    items = [
        Item(known[number], tuple(tellings[number]), threads.get((number, to), {}), reasons.get(number, ""))
        for number in listed
        if number in known
    ]
    return tuple(items), loud, len(order) - len(listed)


def _reasons(connection: sa.Connection, receiver: str, to: Recipient, about: Collection[int]) -> dict[int, str]:
    """Why the user of a job hears of incidents: what the notice said with which they first did."""
    found: dict[int, str] = {}
    if to == OPERATORS:
        return found
    columns = notice.c
    mine = columns.receiver == receiver, columns.audience == to.to.value, columns.user == to.user
    opened = columns.news == News.OPENED.value, columns.dropped.is_(None)
    for numbers in in_parts(about):
        query = sa.select(columns.incident_id, columns.text).where(columns.incident_id.in_(numbers), *mine, *opened)
        found |= {row.incident_id: row.text for row in connection.execute(query.order_by(columns.id))}
    return found


def threads_of(
    connection: sa.Connection, receiver: str, about: Collection[int]
) -> dict[tuple[int, Recipient], dict[str, str]]:
    """What the receiver keeps of incidents, by incident and recipient."""
    found: dict[tuple[int, Recipient], dict[str, str]] = {}
    for numbers in in_parts(about):
        query = sa.select(thread).where(thread.c.incident_id.in_(numbers), thread.c.receiver == receiver)
        for row in connection.execute(query):
            found[row.incident_id, recipient_of(row)] = dict(row.reference)
    return found


def _waiting_messages(receiver: str) -> sa.Select[Any]:
    columns = delivery.c
    return (
        sa.select(columns.id, columns.audience, columns.user, columns.at, columns.attempts, columns.next_at)
        .where(columns.receiver == receiver, PENDING)
        .order_by(columns.attempts, columns.id)
    )


def _pending(row: Any) -> Pending:
    return Pending(row.id, recipient_of(row), row.at, row.attempts, row.next_at)


def _mine(receiver: str, to: Recipient) -> tuple[sa.ColumnElement[bool], ...]:
    return thread.c.receiver == receiver, thread.c.audience == to.to.value, thread.c.user == to.user
