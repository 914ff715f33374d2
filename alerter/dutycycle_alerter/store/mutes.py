"""Which users want no more of what a receiver sends to users."""

from __future__ import annotations

import sqlalchemy as sa

from dutycycle_alerter.store.schema import mute as table


def mute(connection: sa.Connection, receiver: str, user: str, *, at: float) -> None:
    """The user wants no more of it; since when stays as it was where that is known."""
    if not muted(connection, receiver, user):
        connection.execute(sa.insert(table).values(receiver=receiver, user=user, at=at))


def unmute(connection: sa.Connection, receiver: str, user: str) -> None:
    """The user wants it again."""
    connection.execute(sa.delete(table).where(table.c.receiver == receiver, table.c.user == user))


def muted(connection: sa.Connection, receiver: str, user: str) -> bool:
    """Whether the user wants no more of it."""
    query = sa.select(table.c.at).where(table.c.receiver == receiver, table.c.user == user)
    return connection.execute(query).first() is not None
