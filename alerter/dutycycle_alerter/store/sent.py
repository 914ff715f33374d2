"""What was sent before, as far as it decides what goes out next."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from dutycycle_alerter.notify.gathering import Past, Waiting
from dutycycle_alerter.notify.model import ParcelKind, Recipient
from dutycycle_alerter.notify.routing import LOUD
from dutycycle_alerter.store import deliveries
from dutycycle_alerter.store.deliveries import PENDING
from dutycycle_alerter.store.in_parts import in_parts
from dutycycle_alerter.store.outbox import recipient_of
from dutycycle_alerter.store.schema import delivery, mute, notice

_LOUD = sorted(news.value for news in LOUD)
_COUNTED = (ParcelKind.INCIDENTS.value, ParcelKind.DIGEST.value)


def past(
    connection: sa.Connection, receiver: str, waiting: Sequence[Waiting], *, day: float, oldest: float, longest: float
) -> Past:
    """What gathering must know. `day` is when the day that limits count began, `oldest` when what was sent since was
    put together at the earliest, `longest` since when a message of a bundle may keep the next one back.
    """
    columns = delivery.c
    waits = deliveries.pending(connection, receiver)
    query = sa.select(notice.c.delivery_id, notice.c.bundle, notice.c.incident_id).where(
        notice.c.delivery_id.in_(sa.select(columns.id).where(columns.receiver == receiver, PENDING))
    )
    together = connection.execute(query.distinct()).all()
    known = {item.id: item for item in waits}
    last = (
        sa.select(columns.audience, columns.user, notice.c.bundle, sa.func.max(columns.at).label("at"))
        .join(notice, notice.c.delivery_id == columns.id)
        .where(columns.receiver == receiver, columns.at > longest)
        .group_by(columns.audience, columns.user, notice.c.bundle)
    )
    sent = (
        sa.select(columns.audience, columns.user, sa.func.count().label("number"))
        .where(
            columns.receiver == receiver,
            columns.at > oldest,
            columns.failed_at.is_(None),
            # However long it waited: it comes on the day on which it is sent.
            sa.or_(columns.sent_at.is_(None), columns.sent_at > day),
            columns.kind.in_(_COUNTED),
            columns.content["goes_on"].as_boolean().is_not(True),
        )
        .group_by(columns.audience, columns.user)
    )
    about = {item.incident_id for item in waiting}
    return Past(
        last={(recipient_of(row), row.bundle): row.at for row in connection.execute(last)},
        sent={recipient_of(row): row.number for row in connection.execute(sent)},
        ready={(known[row.delivery_id].to, row.bundle) for row in together if not known[row.delivery_id].attempts},
        held={(row.incident_id, known[row.delivery_id].to) for row in together},
        told=_told(connection, receiver, about),
        threads=set(deliveries.threads_of(connection, receiver, about)),
        muted=set(connection.execute(sa.select(mute.c.user).where(mute.c.receiver == receiver)).scalars()),
    )


def _told(connection: sa.Connection, receiver: str, about: Collection[int]) -> set[tuple[int, Recipient]]:
    columns = notice.c
    found: set[tuple[int, Recipient]] = set()
    for numbers in in_parts(about):
        query = (
            sa.select(columns.incident_id, columns.audience, columns.user)
            .join(delivery, delivery.c.id == columns.delivery_id)
            .where(
                columns.incident_id.in_(numbers),
                columns.receiver == receiver,
                columns.news.in_(_LOUD),
                delivery.c.failed_at.is_(None),
            )
            .distinct()
        )
        found |= {(row.incident_id, recipient_of(row)) for row in connection.execute(query)}
    return found
