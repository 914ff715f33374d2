"""Incidents and their events: read, and written.

Who writes an incident writes all of it: what another transaction (the pass, a person) did between reading and writing
would be lost. `Database.write` lets one in at a time; what is read to be written is read `FOR UPDATE` besides, against
whoever writes without it. SQLite has no such clause and needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from dutycycle_alerter.incidents.model import Event, EventKind, Incident, Resolution, Severity, State, Step
from dutycycle_alerter.store.in_parts import in_parts
from dutycycle_alerter.store.incident_rows import event_from_row, event_to_row, from_row, to_row
from dutycycle_alerter.store.schema import event, incident
from dutycycle_alerter.store.types import storable_name
from dutycycle_alerter.views import IncidentFilter

# Made once: a pass over a large cluster changes thousands of incidents.
_INSERT = sa.insert(incident).returning(incident.c.id, sort_by_parameter_order=True)
_INSERT_EVENT = sa.insert(event)
_UPDATE = sa.update(incident).where(incident.c.id == sa.bindparam("of_id"))
# As the indexes say it, not with a parameter, and as a comparison: of a boolean expression SQLAlchemy makes `... = 1`,
# and SQLite does not know the indexes by that.
ACTIVE = incident.c.state != sa.literal_column(f"'{State.RESOLVED.value}'")
_CLOSED = incident.c.resolution == sa.literal_column(f"'{Resolution.OPERATOR.value}'")


def latest(connection: sa.Connection, subjects: Collection[str], kind: str = "efficiency") -> dict[str, Incident]:
    """The active incident of each subject, or else its newest one; subjects without any are left out. To be written.

    Only these are read and locked: a subject may have any number of past ones, and each is a long row.
    """
    wanted = {storable_name(subject): subject for subject in subjects}
    columns = incident.c
    active_ones = sa.and_(columns.kind == kind, ACTIVE)
    found = _by_subject(connection, list(wanted), lambda names: sa.and_(columns.subject.in_(names), active_ones))
    others = [name for name in wanted if name not in found]
    found |= _by_subject(connection, others, lambda names: _newest(names, kind))
    return {wanted[name]: item for name, item in found.items()}


def _by_subject(
    connection: sa.Connection, names: Sequence[str], which: Callable[[Sequence[str]], sa.ColumnElement[bool]]
) -> dict[str, Incident]:
    found: dict[str, Incident] = {}
    for some in in_parts(names):
        chosen = which(some)
        # Of two that opened at the same instant the later one counts.
        query = sa.select(incident).where(chosen).order_by(incident.c.id).with_for_update()
        found |= {row.subject: from_row(row) for row in connection.execute(query)}
    return found


def _newest(names: Sequence[str], kind: str) -> sa.ColumnElement[bool]:
    """Which they are is found in the index alone."""
    columns = incident.c
    newest = sa.select(columns.subject, sa.func.max(columns.opened_at)).group_by(columns.subject)
    newest = newest.where(columns.subject.in_(names), columns.kind == kind)
    return sa.and_(columns.kind == kind, sa.tuple_(columns.subject, columns.opened_at).in_(newest))


def latest_of_classes(
    connection: sa.Connection, kinds: Collection[str], *, resolved_after: float
) -> dict[tuple[str, str], Incident]:
    """By (subject, class), the active incident or else the newest, of those that a pass may go on with: active ones,
    those resolved after a time, and those that a person closed while their condition held. To be written.
    """
    columns = incident.c
    closed_while_it_held = sa.and_(_CLOSED, sa.cast(columns.rules, sa.Text) != "[]")
    query = (
        sa.select(incident)
        .where(
            columns.kind.in_(list(kinds)),
            sa.or_(ACTIVE, columns.resolved_at >= resolved_after, closed_while_it_held),
        )
        .order_by(columns.state != State.RESOLVED.value, columns.opened_at, columns.id)
        .with_for_update()
    )
    return {(row.subject, row.kind): from_row(row) for row in connection.execute(query)}


def active(connection: sa.Connection, kind: str | None = None, *, to_write: bool = False) -> list[Incident]:
    """Every incident that is not resolved, of a class where one is given: a large fleet has tens of thousands of GPUs
    that are throttled for information.
    """
    query = sa.select(incident).where(ACTIVE).order_by(incident.c.id)
    if kind is not None:
        query = query.where(incident.c.kind == kind)
    return [from_row(row) for row in connection.execute(query.with_for_update() if to_write else query)]


def last_left(connection: sa.Connection, numbers: Sequence[int], *, until: float) -> dict[int, float]:
    """When a rule last left each of these incidents; without those that none has left. What is later than `until` is
    from before the clock was set back.
    """
    found: dict[int, float] = {}
    columns = event.c
    for some in in_parts(numbers):
        chosen = columns.incident_id.in_(some)
        query = (
            sa.select(columns.incident_id, sa.func.max(columns.at).label("at"))
            .where(chosen, columns.kind == EventKind.RULE_CLEARED.value, columns.at <= until)
            .group_by(columns.incident_id)
        )
        found |= {row.incident_id: row.at for row in connection.execute(query)}
    return found


def active_counts(connection: sa.Connection) -> dict[tuple[str, Severity, State], int]:
    """How many incidents are not resolved, by rule, severity and state; those of which there are none left out."""
    key = (incident.c.rule, incident.c.severity, incident.c.state)
    query = sa.select(*key, sa.func.count()).where(ACTIVE).group_by(*key)
    return {
        (rule, Severity(severity), State(state)): number for rule, severity, state, number in connection.execute(query)
    }


def resolved_since(connection: sa.Connection, kind: str, since: float) -> list[Incident]:
    """Every incident of a class that was resolved at a time or later."""
    columns = incident.c
    query = (
        sa.select(incident)
        .where(columns.kind == kind, columns.state == State.RESOLVED.value, columns.resolved_at >= since)
        .order_by(incident.c.id)
    )
    return [from_row(row) for row in connection.execute(query)]


def save(connection: sa.Connection, before: Incident | None, step: Step) -> Incident | None:
    """Write what a step changed and append its events; returns the incident with its id."""
    return save_all(connection, [(before, step)])[0]


def save_all(connection: sa.Connection, steps: Sequence[tuple[Incident | None, Step]]) -> list[Incident | None]:
    """The same for many at a time: incidents that were there are written before new ones are, so that one may end and
    another of its subject begin; the events are in the order of the steps.
    """
    known = [(step.incident, before) for before, step in steps if step.incident is not None and step.incident.id]
    changed = [to_row(after) | {"of_id": after.id} for after, before in known if after != before]
    if changed:
        connection.execute(_UPDATE, changed)
    opened = [step.incident for _, step in steps if step.incident is not None and not step.incident.id]
    numbers = iter(connection.execute(_INSERT, [to_row(item) for item in opened]).scalars() if opened else ())
    saved: list[Incident | None] = []
    events: list[dict[str, Any]] = []
    for _, step in steps:
        after = step.incident
        if after is not None:
            after = after if after.id else replace(after, id=next(numbers))
            events += [event_to_row(after.id, item) for item in step.events]
        saved.append(after)
    if events:
        connection.execute(_INSERT_EVENT, events)
    return saved


def get(connection: sa.Connection, incident_id: int, *, to_write: bool = False) -> Incident | None:
    """One incident by its number; None where there is none, or can be none."""
    if not 0 < incident_id < 2**31:  # beyond the column's type: people type numbers into addresses
        return None
    query = sa.select(incident).where(incident.c.id == incident_id)
    row = connection.execute(query.with_for_update() if to_write else query).first()
    return None if row is None else from_row(row)


def note(connection: sa.Connection, noted: Sequence[tuple[int, Event]]) -> None:
    """Append events that change nothing of their incidents."""
    if noted:
        connection.execute(_INSERT_EVENT, [event_to_row(number, item) for number, item in noted])


def events_of(connection: sa.Connection, incident_id: int) -> list[Event]:
    """An incident's history, oldest first."""
    query = sa.select(event).where(event.c.incident_id == incident_id).order_by(event.c.id)
    return [event_from_row(row) for row in connection.execute(query)]


def events_after(connection: sa.Connection, event_id: int, *, limit: int = 1000) -> list[tuple[int, int, Event]]:
    """(event number, incident number, event) of what came after an event, oldest first."""
    query = sa.select(event).where(event.c.id > event_id).order_by(event.c.id).limit(limit)
    return [(row.id, row.incident_id, event_from_row(row)) for row in connection.execute(query)]


def last_event_id(connection: sa.Connection) -> int:
    """The newest event's number, 0 where there is none."""
    return int(connection.execute(sa.select(sa.func.coalesce(sa.func.max(event.c.id), 0))).scalar_one())


def find(
    connection: sa.Connection, wanted: IncidentFilter, *, limit: int, offset: int
) -> tuple[Sequence[Incident], int]:
    """A page of the incidents that match, active before resolved and newest first, and how many match in all."""
    conditions = list(_conditions(wanted))
    total = connection.execute(sa.select(sa.func.count()).select_from(incident).where(*conditions)).scalar_one()
    count = sa.select(sa.func.count()).select_from(incident).where(*conditions, ACTIVE)
    active_ones = connection.execute(count).scalar_one()
    found: list[Incident] = []
    # Active ones are few and resolved ones any number: an index serves each.
    for part, before in ((ACTIVE, 0), (incident.c.state == State.RESOLVED.value, active_ones)):
        query = (
            sa.select(incident)
            .where(*conditions, part)
            .order_by(incident.c.opened_at.desc(), incident.c.id.desc())
            .limit(limit - len(found))
            .offset(max(0, offset - before))
        )
        found += [from_row(row) for row in connection.execute(query)]
    return found, total


def _conditions(wanted: IncidentFilter) -> list[sa.ColumnElement[bool]]:
    columns = incident.c
    conditions: list[sa.ColumnElement[bool]] = []
    if wanted.states:
        conditions.append(columns.state.in_([state.value for state in wanted.states]))
    if wanted.severity is not None:
        conditions.append(columns.severity == wanted.severity.value)
    for name in ("rule", "user", "account", "scheduler"):
        value = getattr(wanted, name)
        if value:
            conditions.append(columns[name] == value)
    if wanted.resolved_after is not None:
        conditions.append(sa.or_(ACTIVE, columns.resolved_at >= wanted.resolved_after))
    if wanted.node:
        # `nodes` is space-separated and space-framed, so that gpu1 does not match gpu10.
        conditions.append(columns.nodes.contains(f" {wanted.node} ", autoescape=True))
    if wanted.text:
        fields = (columns.subject, columns.user, columns.account, columns.rule, columns.causes)
        conditions.append(sa.or_(*(field.icontains(wanted.text, autoescape=True) for field in fields)))
    return conditions
