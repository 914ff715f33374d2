"""What people marked as intended, to and from rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from dutycycle_alerter.incidents.expectations import Expectation, Scope, extending
from dutycycle_alerter.incidents.model import EventKind, Resolution
from dutycycle_alerter.store.schema import event, expectation, incident
from dutycycle_alerter.store.types import storable_name

_COLUMNS = expectation.c


def in_force(connection: sa.Connection, now: float, *, user: str | None = None) -> list[Expectation]:
    """Those that count now, the one that ends first at the front; of one user where it is given."""
    query = (
        sa.select(expectation)
        .where(_COLUMNS.expires_at > now, _COLUMNS.withdrawn_at.is_(None), *_about(user))
        .order_by(_COLUMNS.expires_at, _COLUMNS.id)
    )
    return [_from_row(row) for row in connection.execute(query)]


def everyone(connection: sa.Connection, *, user: str | None = None) -> list[Expectation]:
    """All that are remembered, the newest first; of one user where it is given."""
    query = sa.select(expectation).where(*_about(user)).order_by(_COLUMNS.at.desc(), _COLUMNS.id.desc())
    return [_from_row(row) for row in connection.execute(query)]


def get(connection: sa.Connection, expectation_id: int, *, to_write: bool = False) -> Expectation | None:
    """One by its number; None where there is none, or can be none."""
    if not 0 < expectation_id < 2**31:
        return None
    query = sa.select(expectation).where(_COLUMNS.id == expectation_id)
    row = connection.execute(query.with_for_update() if to_write else query).first()
    return None if row is None else _from_row(row)


def add(connection: sa.Connection, said: Expectation) -> Expectation:
    """Keep what was said, by extending what says the same where there is such; returns it as it is kept."""
    said = replace(said, actor=storable_name(said.actor))  # as it is read, to be found again
    query = (
        sa.select(expectation)
        .where(_COLUMNS.subject == said.subject, _COLUMNS.expires_at > said.at, _COLUMNS.withdrawn_at.is_(None))
        .order_by(_COLUMNS.id)
        .with_for_update()
    )
    kept = extending([_from_row(row) for row in connection.execute(query)], said)
    if kept.id:
        save(connection, kept)
        return kept
    number = connection.execute(sa.insert(expectation).values(_to_row(kept)).returning(_COLUMNS.id)).scalar_one()
    return replace(kept, id=number)


def closed_by(connection: sa.Connection, said: Expectation) -> list[int]:
    """The other incidents that a pass closed because of it."""
    whose = incident.c.user if said.scope is Scope.USER else incident.c.subject
    query = (
        sa.select(incident.c.id)
        .join(event, event.c.incident_id == incident.c.id)
        .where(
            whose == said.subject,
            incident.c.cluster == said.cluster,
            incident.c.resolution == Resolution.INTENDED.value,
            event.c.kind == EventKind.INTENDED.value,
            event.c.data["expectation"].as_integer() == said.id,
        )
        .distinct()
        .order_by(incident.c.id)
    )
    return [number for number in connection.execute(query).scalars() if number != said.incident_id]


def save(connection: sa.Connection, changed: Expectation) -> None:
    """Write one that is there."""
    connection.execute(sa.update(expectation).where(_COLUMNS.id == changed.id).values(_to_row(changed)))


def forget(connection: sa.Connection, before: float, *, limit: int) -> int:
    """Delete some of those that were over before a time; returns how many."""
    over = sa.or_(_COLUMNS.expires_at < before, _COLUMNS.withdrawn_at < before)
    some = sa.select(_COLUMNS.id).where(over).limit(limit).scalar_subquery()
    return connection.execute(sa.delete(expectation).where(_COLUMNS.id.in_(some))).rowcount


def _about(user: str | None) -> tuple[sa.ColumnElement[bool], ...]:
    """That it is of the user, or of a job that an incident of theirs is about; no condition without a user."""
    if user is None:
        return ()
    theirs = sa.exists().where(
        incident.c.subject == _COLUMNS.subject, incident.c.cluster == _COLUMNS.cluster, incident.c.user == user
    )
    # A job's id is not taken for a user's name.
    of_user = sa.and_(_COLUMNS.scope == Scope.USER.value, _COLUMNS.subject == user)
    return (sa.or_(of_user, sa.and_(_COLUMNS.scope == Scope.JOB.value, theirs)),)


def _to_row(item: Expectation) -> dict[str, Any]:
    row = {name: getattr(item, name) for name in _COLUMNS.keys() if name != "id"}  # noqa: SIM118
    return {**row, "scope": item.scope.value, "rules": list(item.rules)}


def _from_row(row: Any) -> Expectation:
    return Expectation(**{**row._mapping, "scope": Scope(row.scope), "rules": tuple(row.rules)})  # noqa: SLF001
