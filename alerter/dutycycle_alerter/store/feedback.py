"""What became of each rule's incidents, and what people said of them: how often a rule was wrong."""

from __future__ import annotations

import sqlalchemy as sa

from dutycycle_alerter.incidents.model import EventKind, Resolution, State
from dutycycle_alerter.reports.model import RuleOutcomes
from dutycycle_alerter.store.ledger import in_range
from dutycycle_alerter.store.schema import event, incident

_KINDS = (EventKind.TOLD, EventKind.ACKNOWLEDGED, EventKind.SNOOZED, EventKind.INTENDED, EventKind.WITHDRAWN)
_ENDS = {
    "closed": Resolution.OPERATOR,
    "closed_as_intended": Resolution.INTENDED,
    "cleared": Resolution.CLEARED,
    "ended": Resolution.ENDED,
    "excluded": Resolution.EXCLUDED,
    "lost": Resolution.LOST,
}
"""Every way in which an incident ends, as a report names it."""


def feedback(
    connection: sa.Connection,
    *,
    since: float,
    until: float,
    factor: float = 1.0,
    cluster: str | None = None,
    user: str | None = None,
) -> list[RuleOutcomes]:
    """By rule, most incidents first. `since` and `until` are wall times, `factor` the time scale."""
    columns = incident.c
    chosen = in_range(incident, since, until, cluster=cluster, user=user, at="opened_at")
    marks = _marks(chosen)
    acknowledged = marks.c.acknowledged
    told = marks.c.told.is_not(None)
    # Said, and not taken back since.
    intended = marks.c.intended > sa.func.coalesce(marks.c.withdrawn, 0)
    counted = {
        "told": told,
        "acknowledged": acknowledged.is_not(None),
        "snoozed": marks.c.snoozed.is_not(None),
        "intended": intended,
        "wrong": sa.and_(told, intended),
        "active": columns.state != State.RESOLVED.value,
        **{name: columns.resolution == how.value for name, how in _ENDS.items()},
    }
    joined = incident.outerjoin(marks, marks.c.incident_id == columns.id)
    numbers = (sa.func.sum(sa.case((one, 1), else_=0)).label(name) for name, one in counted.items())
    query = (
        sa.select(columns.rule.label("name"), sa.func.count().label("opened"), *numbers)
        .select_from(joined)
        .where(*chosen)
        .group_by(columns.rule)
        .order_by(sa.func.count().desc(), columns.rule)
    )
    to_acknowledge = _medians(
        connection,
        sa.select(columns.rule, (acknowledged - columns.opened_at).label("length")).select_from(joined),
        *chosen,
        acknowledged.is_not(None),
    )
    to_clear = _medians(
        connection,
        sa.select(columns.rule, (columns.resolved_at - columns.opened_at).label("length")),
        *chosen,
        columns.resolution == Resolution.CLEARED.value,
    )
    return [
        RuleOutcomes(
            **row,
            to_acknowledge=_shown(to_acknowledge.get(row["name"]), factor),
            to_clear=_shown(to_clear.get(row["name"]), factor),
        )
        for row in connection.execute(query).mappings()
    ]


def _marks(chosen: list[sa.ColumnElement[bool]]) -> sa.Subquery:
    """By incident, when it was first acknowledged, and a number where it was told, snoozed, intended or withdrawn (of
    the last two the latest's, that they can be compared); None where it was not.
    """

    def latest(kind: EventKind, *conditions: sa.ColumnElement[bool]) -> sa.Label[int]:
        return sa.func.max(sa.case((sa.and_(event.c.kind == kind.value, *conditions), event.c.id))).label(kind.value)

    # A program that took it tells nobody by that.
    to_somebody = event.c.data["addresses"][0].as_string().is_not(None)
    acknowledged = event.c.kind == EventKind.ACKNOWLEDGED.value
    return (
        sa.select(
            event.c.incident_id,
            sa.func.min(sa.case((acknowledged, event.c.at))).label("acknowledged"),
            latest(EventKind.TOLD, to_somebody),
            latest(EventKind.SNOOZED),
            latest(EventKind.INTENDED),
            latest(EventKind.WITHDRAWN),
        )
        .join(incident, incident.c.id == event.c.incident_id)
        .where(*chosen, event.c.kind.in_([kind.value for kind in _KINDS]))
        .group_by(event.c.incident_id)
        .subquery("marks")
    )


def _medians(
    connection: sa.Connection, lengths: sa.Select[tuple[str, float]], *conditions: sa.ColumnElement[bool]
) -> dict[str, float]:
    """The median of each rule's lengths: the mean of the two in the middle, where their number is even."""
    given = lengths.where(*conditions).subquery("given")
    place = sa.func.row_number().over(partition_by=given.c.rule, order_by=given.c.length).label("place")
    number = sa.func.count().over(partition_by=given.c.rule).label("number")
    ranked = sa.select(given.c.rule, given.c.length, place, number).subquery("ranked")
    middle = sa.or_(
        2 * ranked.c.place == ranked.c.number,
        2 * ranked.c.place == ranked.c.number + 1,
        2 * ranked.c.place == ranked.c.number + 2,
    )
    query = sa.select(ranked.c.rule, sa.func.avg(ranked.c.length)).where(middle).group_by(ranked.c.rule)
    return {rule: float(length) for rule, length in connection.execute(query)}


def _shown(seconds: float | None, factor: float) -> float | None:
    return None if seconds is None else max(0.0, seconds) * factor
