"""Of each receiver of weekly reports: since when it is one, and up to when it has them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from dutycycle_alerter.store.database import get_meta, set_meta
from dutycycle_alerter.store.schema import meta

_PREFIX = "weekly/"


@dataclass(frozen=True, slots=True)
class Reported:
    """`since` is when it was configured, `until` the end of its newest report, in Unix seconds; None: it had none."""

    since: float
    until: float | None = None


def read(connection: sa.Connection, receiver: str) -> Reported | None:
    """None where the receiver is new."""
    kept = get_meta(connection, _PREFIX + receiver)
    return None if kept is None else Reported(*kept)


def keep(connection: sa.Connection, receiver: str, reported: Reported) -> None:
    """Instead of what was known of the receiver."""
    set_meta(connection, _PREFIX + receiver, [reported.since, reported.until])


def forget_others(connection: sa.Connection, receivers: Collection[str]) -> None:
    """All but these get no reports any more: should they again, they are new."""
    kept = meta.c.key.in_([_PREFIX + receiver for receiver in receivers])
    connection.execute(sa.delete(meta).where(meta.c.key.startswith(_PREFIX), ~kept))
